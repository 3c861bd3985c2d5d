import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import Type from 'typebox'
import { invalid } from '../kernel/faults.ts'
import { chosen, mark } from './basis.ts'
import type { Listing } from './route.ts'

/** Rows fetched at a time for a list that is sent whole. Memory is bounded by this, not by the list. */
const streamPageRows = 500
const limitMax = 1_000
const limitWithCursorOnly = 100

export const pageQuery = {
  limit: Type.Optional(
    mark(
      chosen(3),
      Type.Integer({ minimum: 1, maximum: limitMax, description: 'Answer one page of at most so many records.' }),
    ),
  ),
  cursor: Type.Optional(
    mark(
      chosen(3),
      Type.String({
        maxLength: 200,
        description: 'Where the page starts: taken from the Link header of the page before.',
      }),
    ),
  ),
}

export type PageQuery = { limit?: number; cursor?: string }

const encodeCursor = (key: string): string => Buffer.from(key).toString('base64url')

function decodeCursor(cursor: string, isKey: (text: string) => boolean): string {
  const key = Buffer.from(cursor, 'base64url').toString('utf8')
  if (isKey(key) && encodeCursor(key) === cursor) return key
  throw invalid([{ parameter: 'cursor', detail: 'must be a cursor that a Link header of this list gave you' }])
}

/**
 * Without parameters: the whole list, streamed. With them: one page, and a Link header to the next. What goes wrong before
 * the first page is there is thrown; later it can no longer be answered, only told to `onBrokenOff`.
 */
export async function sendList<Row>(
  reply: FastifyReply,
  listing: Listing<Row>,
  query: PageQuery,
  onBrokenOff: (error: unknown) => void,
): Promise<FastifyReply> {
  reply.type('application/json; charset=utf-8')
  if (query.limit === undefined && query.cursor === undefined) return sendWhole(reply, listing, onBrokenOff)
  return sendPage(reply, listing, query)
}

async function sendPage<Row>(reply: FastifyReply, listing: Listing<Row>, query: PageQuery): Promise<FastifyReply> {
  const limit = query.limit ?? limitWithCursorOnly
  const before = query.cursor === undefined ? null : decodeCursor(query.cursor, listing.isKey)
  // One row more than asked for says whether there is a next page.
  const rows = await listing.page({ before, limit: limit + 1 })
  const shown = rows.slice(0, limit)
  const last = shown.at(-1)
  if (rows.length > limit && last !== undefined) {
    // Path and every other parameter stay as the caller sent them; RFC 8288 lets the target be relative.
    const next = new URL(reply.request.url, 'http://relative.invalid')
    next.searchParams.set('limit', String(limit))
    next.searchParams.set('cursor', encodeCursor(listing.keyOf(last)))
    reply.header('link', `<${next.pathname}${next.search}>; rel="next"`)
  }
  return reply.send(jsonArray(shown, listing))
}

async function sendWhole<Row>(
  reply: FastifyReply,
  listing: Listing<Row>,
  onBrokenOff: (error: unknown) => void,
): Promise<FastifyReply> {
  const first = await listing.page({ before: null, limit: streamPageRows })
  if (first.length < streamPageRows) return reply.send(jsonArray(first, listing))
  // The client has left. Fastify would take a stream that its socket ends before the first byte for a failure of ours.
  if (reply.raw.destroyed) return reply.hijack()
  // Nothing of the body leaves for HEAD: the rest of the list would be read for nobody.
  if (reply.request.method === 'HEAD') return reply.send(Readable.from([]))
  const stream = Readable.from(chunks(first, listing), { objectMode: false, highWaterMark: 64 * 1024 })
  // A client that hangs up ends the stream without an error.
  return reply.send(stream.on('error', onBrokenOff))
}

/**
 * Page after page by keyset, each fetched when the socket has taken the one before. No connection is held while a slow
 * client reads, and newest-first means that records made meanwhile cannot make the list endless.
 */
async function* chunks<Row>(first: readonly Row[], listing: Listing<Row>): AsyncGenerator<string> {
  let rows = first
  let lead = '['
  for (;;) {
    if (rows.length > 0) yield lead + rows.map((row) => JSON.stringify(listing.record(row))).join(',')
    if (rows.length > 0) lead = ','
    const last = rows.at(-1)
    if (rows.length < streamPageRows || last === undefined) break
    rows = await listing.page({ before: listing.keyOf(last), limit: streamPageRows })
  }
  yield ']'
}

const jsonArray = <Row>(rows: readonly Row[], listing: Listing<Row>): string =>
  `[${rows.map((row) => JSON.stringify(listing.record(row))).join(',')}]`
