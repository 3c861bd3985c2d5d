import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import Type from 'typebox'
import { invalid } from '../kernel/faults.ts'
import { type Id, type IdPrefix, isId } from '../kernel/ids.ts'
import { chosen, mark } from './basis.ts'
import type { Answer, Listing } from './route.ts'

/** Rows fetched at a time, of most lists. Memory is bounded by this, not by the list. */
const usualRowsAtOnce = 500
/** What is sent at a time, and up to what a list is sent in one piece. */
const pieceBytes = 64 * 1024
/** A page that has so much has no more: its records may be large, and it is made before it is sent. */
const pageBytesMax = 1024 * 1024
const limitMax = 1_000
const limitWithCursorOnly = 100

export const pageQuery = {
  limit: Type.Optional(
    mark(
      chosen(3),
      Type.Integer({
        minimum: 1,
        maximum: limitMax,
        description: 'Answer one page of at most so many records; of large ones, fewer.',
      }),
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

/** Of a list that takes nothing else. */
export const onlyPageQuery = Type.Object(pageQuery, { additionalProperties: false })

/** The answer of a list whose rows come by their ids, newest first, as most do. */
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

function decodeCursor(cursor: string, isKey: (text: string) => boolean): string {
  const key = Buffer.from(cursor, 'base64url').toString('utf8')
  if (isKey(key) && encodeCursor(key) === cursor) return key
  throw invalid([{ parameter: 'cursor', detail: 'must be a cursor that a Link header of this list gave you' }])
}

/** `recheckAccess` fails when the caller has lost the right to read: a long list to a slow reader takes its time. */
type WholeList = { recheckAccess(): Promise<void>; onAborted(error: unknown): void }

/**
 * Without parameters: the whole list, streamed. With them: one page, and a Link header to the next. What goes wrong before
 * the first page is there is thrown; later it can no longer be answered, only told to `onAborted`.
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
  const limit = query.limit ?? limitWithCursorOnly
  const before = query.cursor === undefined ? null : decodeCursor(query.cursor, listing.isKey)
  const { records, next } = await gather(listing, before, limit)
  if (next !== null) {
    // Path and every other parameter stay as the caller sent them; RFC 8288 lets the target be relative.
    const url = new URL(reply.request.url, 'http://relative.invalid')
    url.searchParams.set('limit', String(limit))
    url.searchParams.set('cursor', encodeCursor(next))
    reply.header('link', `<${url.pathname}${url.search}>; rel="next"`)
  }
  return reply.send(`[${records.join(',')}]`)
}

/** Up to so many records, and where the next page starts. */
async function gather<Row>(
  listing: Listing<Row>,
  before: string | null,
  limit: number,
): Promise<{ records: string[]; next: string | null }> {
  const rowsAtOnce = listing.rowsAtOnce ?? usualRowsAtOnce
  const records: string[] = []
  let bytes = 0
  let last = before
  for (;;) {
    // One row more than asked for says whether there is a next page.
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
  const rowsAtOnce = listing.rowsAtOnce ?? usualRowsAtOnce
  const first = await listing.page({ before: null, limit: rowsAtOnce })
  const next = async (last: Row) => {
    await recheckAccess()
    return listing.page({ before: listing.keyOf(last), limit: rowsAtOnce })
  }
  const pieces = inPieces(first, listing, rowsAtOnce, next)
  const start: string = first.length < rowsAtOnce ? (await pieces.next()).value! : ''
  if (start !== '' && Buffer.byteLength(start) < pieceBytes) return reply.send(start)
  // The client has left. Fastify would take a stream that its socket ends before the first byte for a failure of ours.
  if (reply.raw.destroyed) return reply.hijack()
  // Nothing of the body leaves for HEAD: the rest of the list would be read for nobody.
  if (reply.request.method === 'HEAD') return reply.send(Readable.from([]))
  const stream = Readable.from(startedWith(start, pieces), { objectMode: false, highWaterMark: pieceBytes })
  // A client that hangs up ends the stream without an error.
  return reply.send(stream.on('error', onAborted))
}

async function* startedWith(start: string, rest: AsyncGenerator<string>): AsyncGenerator<string> {
  if (start !== '') yield start
  yield* rest
}

/**
 * Page after page by keyset, each fetched when the socket has taken the one before. No connection is held while a slow
 * client reads, and newest-first means that records made meanwhile cannot make the list endless.
 */
async function* inPieces<Row>(
  first: readonly Row[],
  listing: Listing<Row>,
  rowsAtOnce: number,
  next: (last: Row) => Promise<readonly Row[]>,
): AsyncGenerator<string> {
  let rows = first
  let piece = '['
  let bytes = 0
  let lead = ''
  for (;;) {
    for (const row of rows) {
      const record = JSON.stringify(listing.record(row))
      piece += lead + record
      bytes += Buffer.byteLength(record)
      lead = ','
      if (bytes >= pieceBytes) {
        yield piece
        piece = ''
        bytes = 0
      }
    }
    const last = rows.at(-1)
    if (rows.length < rowsAtOnce || last === undefined) break
    rows = await next(last)
  }
  yield `${piece}]`
}
