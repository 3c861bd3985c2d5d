import { KeyhookError } from './errors.ts'
import { readJson } from './json.ts'
import type { ApiRequest, CallOptions, Query, Transport } from './transport.ts'

export type PageOptions = {
  /** Records per page; 100 by default. */
  limit?: number | undefined
  /** Where to start: `next` of an earlier page. */
  cursor?: string | undefined
}

export type Page<T> = {
  items: T[]
  /** The cursor of the next page; null at the end. */
  next: string | null
}

/** A list that is read page by page, while one iterates over it. */
export type List<T> = AsyncIterable<T> & {
  /** One page: the first, or the one at `cursor`. */
  page(cursor?: string): Promise<Page<T>>
  /** All records in one array. */
  toArray(): Promise<T[]>
}

const recordsPerPage = 100

export function createList<T>(
  transport: Transport,
  path: string,
  query: Query & PageOptions,
  options: CallOptions,
): List<T> {
  const request: ApiRequest = { method: 'GET', path, isRepeatable: true }

  async function page(cursor = query.cursor): Promise<Page<T>> {
    const asked = { ...query, limit: query.limit ?? recordsPerPage, cursor }
    const { text, headers, url } = await transport.send({ ...request, query: asked }, options)
    return { items: readJson<T[]>(text), next: nextCursor(headers.get('link'), url) }
  }

  async function* iterate(): AsyncGenerator<T> {
    const seen = new Set<string>()
    let cursor = query.cursor
    for (;;) {
      const { items, next } = await page(cursor)
      yield* items
      if (next === null) return
      if (seen.has(next)) throw badLink('leads back to an earlier page')
      seen.add(next)
      cursor = next
    }
  }

  return {
    page,
    async toArray() {
      const records: T[] = []
      for await (const record of iterate()) records.push(record)
      return records
    },
    [Symbol.asyncIterator]: iterate,
  }
}

/**
 * The cursor of the `Link` header (RFC 8288). Only the cursor is used: the next request goes to the address that the caller
 * configured, which can have a path in front that the server does not know.
 */
function nextCursor(header: string | null, asked: URL): string | null {
  for (const [, target, parameters] of (header ?? '').matchAll(/<([^>]*)>([^,<]*)/g)) {
    if (!/;\s*rel="?next"?\s*(;|$)/i.test(parameters!)) continue
    const url = new URL(target!, asked)
    if (url.origin !== asked.origin) throw badLink('points at another server')
    const cursor = url.searchParams.get('cursor')
    if (cursor === null) throw badLink('has no cursor')
    return cursor
  }
  return null
}

const badLink = (what: string): KeyhookError =>
  new KeyhookError({ code: 'client.unexpected_response', message: `The link to the next page ${what}.` })
