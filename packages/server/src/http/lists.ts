import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import Type from 'typebox'
import { invalid } from '../lib/faults.ts'
import { type Id, type IdPrefix, isId } from '../lib/ids.ts'
import { chosen, mark } from './basis.ts'
import type { Answer, Listing } from './route.ts'
import { closed } from './schemas.ts'

/** Rows per query. Memory is bounded by this, not by the length of the list. */
const defaultRowsAtOnce = 500
/** The size of a chunk. A list below this size is sent at once. */
const chunkBytes = 64 * 1024
/** A page ends at this size, because it is built in memory. */
const pageBytesMax = 1024 * 1024
const limitMax = 1_000
const limitDefault = 100

const limit = (options: { default?: number; description: string }) =>
  Type.Optional(mark(chosen(3), Type.Integer({ minimum: 1, maximum: limitMax, ...options })))

const cursor = Type.Optional(
  mark(
    chosen(3),
    Type.String({
      minLength: 1,
      maxLength: 200,
      format: 'cursor',
      description: 'Where the page starts: taken from the Link header of the page before.',
    }),
  ),
)

/** For a list of the published interface, which promises all records: without parameters it is sent whole. */
export const wholeListQuery = {
  limit: limit({ description: 'Answer one page of at most so many records; of large ones, fewer.' }),
  cursor,
}

/** For our own lists: always a page. The validator fills in the default. */
export const pageQuery = {
  limit: limit({ default: limitDefault, description: 'The most records of a page; of large ones, it has fewer.' }),
  cursor,
}

export const onlyWholeListQuery = closed(wholeListQuery)
export const onlyPageQuery = closed(pageQuery)

/** A list in the order of ids, newest first. */
export const listById = <P extends IdPrefix, Row extends { id: Id<P> }>(
  prefix: P,
  record: (row: Row) => object,
  page: Listing<Row>['page'],
): Answer => {
  const list: Listing<Row> = { page, keyOf: (row) => row.id, record, isKey: (text) => isId(prefix, text) }
  return { status: 200, list }
}

export type PageQuery = { limit?: number; cursor?: string }

const encodeCursor = (key: string): string => Buffer.from(key).toString('base64url')

const cursorDetail = 'must be a cursor that a Link header of this list gave you'

/** Of the form alone; whether it is one of this list is seen when it is used. */
export const cursorProblem = (text: string): string | null => (/^[\w-]+$/.test(text) ? null : cursorDetail)

function decodeCursor(cursor: string, isKey: (text: string) => boolean): string {
  const key = Buffer.from(cursor, 'base64url').toString('utf8')
  if (isKey(key) && encodeCursor(key) === cursor) return key
  throw invalid([{ parameter: 'cursor', detail: cursorDetail }])
}

/** `recheckAccess` rejects when the caller has lost access: a long list to a slow client takes minutes. */
type WholeList = { recheckAccess(): Promise<void>; onAborted(error: unknown): void }

/**
 * With a limit or cursor: one page, and a Link header to the next. Without them: the whole list, streamed. An error before the
 * first page is thrown; a later one can no longer be answered and goes to `onAborted`.
 */
export async function sendList<Row>(
  reply: FastifyReply,
  listing: Listing<Row>,
  query: PageQuery,
  whole: WholeList,
): Promise<FastifyReply> {
  reply.type('application/json; charset=utf-8')
  if (query.limit === undefined && query.cursor === undefined) return sendWhole(reply, listing, whole)
  return sendPage(reply, listing, query)
}

async function sendPage<Row>(reply: FastifyReply, listing: Listing<Row>, query: PageQuery): Promise<FastifyReply> {
  const limit = query.limit ?? limitDefault
  const before = query.cursor === undefined ? null : decodeCursor(query.cursor, listing.isKey)
  const { records, next } = await gather(listing, before, limit)
  if (next !== null) {
    // Path and other parameters stay as they were sent; RFC 8288 allows a relative target.
    const url = new URL(reply.request.url, 'http://relative.invalid')
    url.searchParams.set('limit', String(limit))
    url.searchParams.set('cursor', encodeCursor(next))
    reply.header('link', `<${url.pathname}${url.search}>; rel="next"`)
  }
  return reply.send(`[${records.join(',')}]`)
}

/** Up to `limit` records, and the key where the next page starts. */
async function gather<Row>(
  listing: Listing<Row>,
  before: string | null,
  limit: number,
): Promise<{ records: string[]; next: string | null }> {
  const rowsAtOnce = listing.rowsAtOnce ?? defaultRowsAtOnce
  const records: string[] = []
  let bytes = 0
  let last = before
  for (;;) {
    // One more row than needed shows whether there is a next page.
    const asked = Math.min(limit - records.length + 1, rowsAtOnce)
    const rows = await listing.page({ before: last, limit: asked })
    for (const row of rows) {
      if (records.length === limit || bytes > pageBytesMax) return { records, next: last }
      const record = JSON.stringify(listing.record(row))
      records.push(record)
      bytes += Buffer.byteLength(record)
      last = listing.keyOf(row)
    }
    if (rows.length < asked) return { records, next: null }
  }
}

async function sendWhole<Row>(
  reply: FastifyReply,
  listing: Listing<Row>,
  { recheckAccess, onAborted }: WholeList,
): Promise<FastifyReply> {
  const rowsAtOnce = listing.rowsAtOnce ?? defaultRowsAtOnce
  const first = await listing.page({ before: null, limit: rowsAtOnce })
  const next = async (last: Row) => {
    await recheckAccess()
    return listing.page({ before: listing.keyOf(last), limit: rowsAtOnce })
  }
  const chunks = listChunks(first, listing, rowsAtOnce, next)
  const start: string = first.length < rowsAtOnce ? (await chunks.next()).value! : ''
  if (start !== '' && Buffer.byteLength(start) < chunkBytes) return reply.send(start)
  // The client has disconnected. Fastify would report a stream that ends before its first byte as our error.
  if (reply.raw.destroyed) return reply.hijack()
  // HEAD has no body, so the rest of the list is not read.
  if (reply.request.method === 'HEAD') return reply.send(Readable.from([]))
  const stream = Readable.from(startedWith(start, chunks), { objectMode: false, highWaterMark: chunkBytes })
  // A client that disconnects ends the stream without an error.
  return reply.send(stream.on('error', onAborted))
}

async function* startedWith(start: string, rest: AsyncGenerator<string>): AsyncGenerator<string> {
  if (start !== '') yield start
  yield* rest
}

/**
 * Pages by keyset, each fetched when the socket has taken the one before: no database connection is held while a slow client
 * reads. New records come before the first page, so the list always ends.
 */
async function* listChunks<Row>(
  first: readonly Row[],
  listing: Listing<Row>,
  rowsAtOnce: number,
  next: (last: Row) => Promise<readonly Row[]>,
): AsyncGenerator<string> {
  let rows = first
  let chunk = '['
  let bytes = 0
  let lead = ''
  for (;;) {
    for (const row of rows) {
      const record = JSON.stringify(listing.record(row))
      chunk += lead + record
      bytes += Buffer.byteLength(record)
      lead = ','
      if (bytes >= chunkBytes) {
        yield chunk
        chunk = ''
        bytes = 0
      }
    }
    const last = rows.at(-1)
    if (rows.length < rowsAtOnce || last === undefined) break
    rows = await next(last)
  }
  yield `${chunk}]`
}
