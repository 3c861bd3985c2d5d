import Type from 'typebox'
import type { Database } from '../db/database.ts'
import { chosen } from '../http/basis.ts'
import { type Route, route } from '../http/route.ts'
import { Fault, invalid } from '../lib/faults.ts'
import type { OrgId } from '../lib/ids.ts'
import { eventRecordOf, eventTypesQuery, oldestKept, positionExpired } from './event-log-routes.ts'
import { type EventBatch, findPositions } from './event-log-sql.ts'
import { readTypeFilter } from './event-types.ts'

const here = chosen(83)

/** A stream that has nothing to send checks this often that its caller still has access. */
const accessMs = 3_000
/** Longest time without a line, so that proxies keep the connection. */
const silentMsMax = 10_000
/** What the stream asks clients to wait before they connect again. */
const retryMs = 1_000

/** What the stream uses of the event feed. */
type Feed = {
  open(orgId: OrgId): {
    read(after: number): Promise<EventBatch>
    wait(after: number, ms: number): Promise<void>
    close(): void
    readonly isOpen: boolean
  } | null
  readonly stopping: AbortSignal
}

type Reader = NonNullable<ReturnType<Feed['open']>>

const example = `retry: ${retryMs}
id: 41

id: 42
event: database.created
data: {"sequence":42,"id":"evt_01m7n2bm7af259x2adjjzbmn7m","type":"database.created","created_at":"2026-01-31T12:00:00.000Z","body":"{…}"}

`

export function eventStreamRoutes(deps: { db: Database; feed: Feed }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/platform/v1/organizations/:orgId/events/stream',
      needs: 'events:read',
      audit: null,
      basis: here,
      choices: [oldestKept],
      tag: 'Event log',
      summary: 'Stream events',
      description:
        'Server-sent events, each as it happens and in the order of their numbers: `id` is the number, `event` the type, and `data` the record of the list in one line of JSON. Connect again with the number of the last one, and none is missing or repeated. Without a position it starts with what happens from now on. The stream ends when the caller loses access or the server stops.',
      query: Type.Object(
        {
          after: Type.Optional(Type.Integer({ minimum: 0, description: 'Start with the event after this number.' })),
          event_types: eventTypesQuery,
        },
        { additionalProperties: false },
      ),
      headers: [{ name: 'Last-Event-ID', description: 'The same as `after`, and wins over it.' }],
      faults: ['events.expired'],
      success: {
        status: 200,
        description: 'The stream.',
        mediaType: 'text/event-stream',
        schema: Type.String({ examples: [example] }),
        headers: [{ name: 'X-Accel-Buffering', description: 'Always `no`: proxies pass on each event.' }],
      },
      async handler({ orgId, query, headers }) {
        const types = await readTypeFilter(deps.db, query.event_types)
        const given = readPosition(headers['last-event-id'], query.after)
        const { newest, expired } = await findPositions(deps.db, orgId)
        if (given !== null && given.position < expired) throw positionExpired(expired)
        // After a failover that lost events, their numbers are given to others: waiting for the next one would miss those.
        if (given !== null && given.position > newest) {
          throw invalid([
            { parameter: given.parameter, detail: `must not be greater than ${newest}, the newest number` },
          ])
        }
        const reader = deps.feed.open(orgId)
        if (reader === null) throw tooManyStreams()
        const start = { after: given?.position ?? newest, types }
        return {
          status: 200,
          stream: {
            chunks: (recheckAccess) => chunksOf(reader, start, recheckAccess),
            stopping: deps.feed.stopping,
            close: reader.close,
          },
        }
      },
    }),
  ]
}

function readPosition(
  lastEventId: string | string[] | undefined,
  after: number | undefined,
): { position: number; parameter: string } | null {
  if (lastEventId === undefined) return after === undefined ? null : { position: after, parameter: 'after' }
  const parameter = 'Last-Event-ID'
  if (typeof lastEventId === 'string' && /^\d{1,15}$/.test(lastEventId))
    return { position: Number(lastEventId), parameter }
  throw invalid([{ parameter, detail: 'must be the number of an event' }])
}

/** Not 422: a client should try again, and streams whose connection broke are closed within a minute. */
const tooManyStreams = (): Fault =>
  new Fault('service.unavailable', {
    public: 'Too many streams are open on this server. Close one, or try again shortly.',
    headers: { 'retry-after': '5' },
  })

/**
 * The text of a stream. A block without `data` is no event: it tells the client its position, before the first event and when
 * events of other types have passed.
 */
async function* chunksOf(
  reader: Reader,
  start: { after: number; types: readonly string[] | null },
  recheckAccess: () => Promise<void>,
): AsyncGenerator<string> {
  let { after: position } = start
  let told = position
  let spokenMs = performance.now()
  yield `retry: ${retryMs}\nid: ${position}\n\n`
  while (reader.isOpen) {
    const { events, expired, isEnd } = await reader.read(position)
    // The client learns the reason from the answer to its next request.
    if (position < expired) return
    const wanted = events.filter(({ type }) => start.types?.includes(type) ?? true)
    position = Number(events.at(-1)?.sequence ?? position)
    if (wanted.length > 0) {
      yield wanted.map(blockOf).join('')
      told = Number(wanted.at(-1)!.sequence)
      spokenMs = performance.now()
    } else if (performance.now() - spokenMs > silentMsMax - accessMs) {
      yield position > told ? `id: ${position}\n\n` : ':\n\n'
      told = position
      spokenMs = performance.now()
    }
    if (isEnd) await reader.wait(position, accessMs)
    if (reader.isOpen) await recheckAccess()
  }
}

const blockOf = (row: EventBatch['events'][number]): string =>
  `id: ${row.sequence}\nevent: ${row.type}\ndata: ${JSON.stringify(eventRecordOf(row))}\n\n`
