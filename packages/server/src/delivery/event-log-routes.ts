import Type, { type Static } from 'typebox'
import type { Database } from '../db/database.ts'
import { mayAlso } from '../http/access-check.ts'
import { choice, chosen, mark } from '../http/basis.ts'
import { pageQuery } from '../http/lists.ts'
import { type Route, route } from '../http/route.ts'
import { createdAt, exampleId, nullable } from '../http/schemas.ts'
import { Fault, invalid } from '../lib/faults.ts'
import type { OrgId } from '../lib/ids.ts'
import { isoTime, timestampParameter } from '../lib/time.ts'
import { databaseEventTypes, type EventFilter, findPositions, type LoggedEvent, listEvents } from './event-log-sql.ts'
import { shownEventType } from './event-type-schemas.ts'
import { readTypeFilter } from './event-types.ts'
import type { EventFeed, FeedReader } from './hints.ts'
import { countOutcomes, deliveriesCounted, type OutcomesRow } from './history-sql.ts'

const here = chosen(82)

const outcomesBasis = chosen(188)
const count = (description: string) => Type.Integer({ minimum: 0, description })

const outcomes = Type.Object(
  {
    succeeded: count('Webhooks whose last attempt succeeded.'),
    failing: count('Webhooks whose last attempt failed, and which get another.'),
    failed: count('Webhooks that do not get it: the retries are over, or the webhook was deleted.'),
    waiting: count('Webhooks without a finished attempt, and those to which it is sent once more.'),
    expired: count('Webhooks that are finished with it; the attempts have left the history.'),
  },
  {
    additionalProperties: false,
    description: `How its deliveries stand, with \`include=outcomes\`; null if it goes to more than ${deliveriesCounted} webhooks.`,
  },
)

const eventRecord = Type.Object(
  {
    sequence: mark(
      chosen(81),
      Type.Integer({ minimum: 1, description: 'Its number: the events of an organization are 1, 2, 3 without a gap.' }),
    ),
    id: Type.String({ description: 'The event.', examples: [exampleId('evt')] }),
    type: shownEventType('Its type.'),
    created_at: createdAt(),
    body: Type.String({ description: 'Exactly what is sent to webhooks, and signed.', examples: ['{"id":"…"}'] }),
    outcomes: Type.Optional(mark(outcomesBasis, nullable(outcomes))),
  },
  { $id: 'EventRecord', additionalProperties: false, ...here },
)

type ListedEvent = LoggedEvent & { outcomes?: OutcomesRow | null }

const eventRecordOf = (row: ListedEvent) => ({
  sequence: Number(row.sequence),
  id: row.id,
  type: row.type,
  created_at: isoTime(row.created_at),
  body: row.body,
  ...(row.outcomes !== undefined && { outcomes: row.outcomes }),
})

const position = (description: string) => Type.Optional(Type.Integer({ minimum: 0, description }))
export const timestampQuery = (description: string) =>
  Type.Optional(Type.String({ maxLength: 40, format: 'date-time', description, examples: ['2026-01-31T12:00:00Z'] }))

export const eventTypesQuery = Type.Optional(
  Type.String({
    maxLength: 2_000,
    format: 'event-types',
    description: 'Only these event types, separated by commas.',
    examples: ['backup.failed,database.failed'],
    ...here,
  }),
)

const listQuery = Type.Object(
  {
    after: position('Events with a greater number.'),
    before: position('Events with a smaller number.'),
    since: timestampQuery('Events from this time on (RFC 3339).'),
    until: timestampQuery('Events before this time.'),
    event_types: eventTypesQuery,
    order: Type.Optional(
      Type.Enum(['asc', 'desc'], { description: '`desc`, newest first, unless `asc` is asked for.' }),
    ),
    include: Type.Optional(
      Type.Enum(['outcomes'], {
        description: '`outcomes`: with each event how its deliveries stand, for callers who may read deliveries.',
        ...outcomesBasis,
      }),
    ),
    ...pageQuery,
  },
  { additionalProperties: false },
)

const oldestKept = choice(84, 'A position before the oldest event that is kept is answered 410.')

export function eventLogRoutes(deps: { db: Database }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/platform/v1/organizations/:orgId/events',
      needs: 'events:read',
      audit: null,
      isForDatabaseKeys: true,
      basis: here,
      choices: [oldestKept],
      tag: 'Event log',
      summary: 'List events',
      description:
        'The events of the organization by their numbers, whether a webhook was subscribed to them or not. Test events are not in it.',
      query: listQuery,
      faults: ['events.expired'],
      success: { status: 200, description: 'The events.', schema: Type.Array(eventRecord) },
      async handler({ orgId, query, databases, access }) {
        const hasOutcomes = query.include === 'outcomes' && mayAlso(access, 'deliveries:read')
        const filter = { ...(await readFilter(deps.db, query)), databases }
        // What is published while the list is read is not in it: in ascending order it might never end.
        const { newest } = await findPositions(deps.db, orgId)
        filter.before = Math.min(filter.before, newest + 1)
        return {
          status: 200,
          list: {
            async page({ before: key, limit }) {
              const { after, before } = pageRange(filter, key)
              const { events, expired } = await listEvents(
                deps.db,
                orgId,
                { ...filter, after: after ?? 0, before },
                limit,
              )
              if (after !== null && after < expired) throw positionExpired(expired)
              return hasOutcomes ? withOutcomes(deps.db, orgId, events) : events
            },
            keyOf: (row: ListedEvent) => row.sequence,
            record: eventRecordOf,
            isKey: (text) => /^[1-9]\d{0,14}$/.test(text),
            rowsAtOnce: 50,
          },
        }
      },
    }),
  ]
}

async function withOutcomes(db: Database, orgId: OrgId, events: LoggedEvent[]): Promise<ListedEvent[]> {
  const rows = await countOutcomes(db, orgId, events)
  return events.map((event) => ({ ...event, outcomes: rows.get(event.sequence) ?? null }))
}

const positionExpired = (expired: number): Fault =>
  new Fault('events.expired', {
    public: `The events up to ${expired} are not all kept any more. Start at \`oldest_sequence\`, and read the state that you missed from the API.`,
    members: { oldest_sequence: expired + 1 },
  })

type ReadFilter = Omit<EventFilter, 'after' | 'databases'> & { after: number | null }

async function readFilter(db: Database, query: Static<typeof listQuery>): Promise<ReadFilter> {
  const { after, before, since, until, event_types, order } = query
  return {
    after: after ?? null,
    before: before ?? Number.MAX_SAFE_INTEGER,
    since: timestampParameter('since', since),
    until: timestampParameter('until', until),
    types: await readTypeFilter(db, event_types),
    order: order ?? 'desc',
  }
}

/** Where a page starts: behind the given key, in the order of the list. */
function pageRange({ after, before, order }: ReadFilter, key: string | null) {
  if (key === null) return { after, before }
  return order === 'asc'
    ? { after: Math.max(after ?? 0, Number(key)), before }
    : { after, before: Math.min(before, Number(key)) }
}

/** A stream that has nothing to send checks this often that its caller still has access. */
const accessMs = 3_000
/** Longest time without a line, so that proxies keep the connection. */
const silentMsMax = 10_000
/** What the stream asks clients to wait before they connect again. */
const retryMs = 1_000

const example = `retry: ${retryMs}
id: 41

id: 42
event: database.created
data: {"sequence":42,"id":"evt_01m7n2bm7af259x2adjjzbmn7m","type":"database.created","created_at":"2026-01-31T12:00:00.000Z","body":"{…}"}

`

export function eventStreamRoutes(deps: { db: Database; feed: EventFeed }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/platform/v1/organizations/:orgId/events/stream',
      needs: 'events:read',
      audit: null,
      isForDatabaseKeys: true,
      basis: chosen(83),
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
      async handler({ orgId, query, headers, databases }) {
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
        const start = { after: given?.position ?? newest, types, databases }
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
  reader: FeedReader,
  start: { after: number; types: readonly string[] | null; databases: readonly string[] | null },
  recheckAccess: () => Promise<void>,
): AsyncGenerator<string> {
  let { after: position } = start
  let told = position
  let spokenMs = performance.now()
  yield `retry: ${retryMs}\nid: ${position}\n\n`
  while (reader.isOpen) {
    const { events, expired, isEnd } = await reader.read(position)
    // After the read: what was published once the loss of access had been answered is never sent.
    await recheckAccess()
    // The client learns the reason from the answer to its next request.
    if (position < expired) return
    const wanted = events.filter(
      (event) => (start.types?.includes(event.type) ?? true) && (start.databases?.includes(databaseOf(event)!) ?? true),
    )
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
  }
}

/** The database that an event of the platform is about; null for other events. */
const databaseOf = ({ type, body }: LoggedEvent): string | null =>
  databaseEventTypes.includes(type) ? JSON.parse(body).data?.database_id : null

const blockOf = (row: LoggedEvent): string =>
  `id: ${row.sequence}\nevent: ${row.type}\ndata: ${JSON.stringify(eventRecordOf(row))}\n\n`
