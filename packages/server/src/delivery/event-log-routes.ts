import Type, { type Static } from 'typebox'
import type { Database } from '../db/database.ts'
import { choice, chosen, mark } from '../http/basis.ts'
import { pageQuery } from '../http/lists.ts'
import { type Route, route } from '../http/route.ts'
import { createdAt, exampleId } from '../http/schemas.ts'
import { Fault } from '../lib/faults.ts'
import { isoTime, timestampParameter } from '../lib/time.ts'
import { type EventFilter, findPositions, type LoggedEvent, listEvents } from './event-log-sql.ts'
import { shownEventType } from './event-type-schemas.ts'
import { readTypeFilter } from './event-types.ts'

const here = chosen(82)

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
  },
  { $id: 'EventRecord', additionalProperties: false, ...here },
)

export const eventRecordOf = (row: LoggedEvent) => ({
  sequence: Number(row.sequence),
  id: row.id,
  type: row.type,
  created_at: isoTime(row.created_at),
  body: row.body,
})

const position = (description: string) => Type.Optional(Type.Integer({ minimum: 0, description }))
const timestamp = (description: string) =>
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
    since: timestamp('Events from this time on (RFC 3339).'),
    until: timestamp('Events before this time.'),
    event_types: eventTypesQuery,
    order: Type.Optional(
      Type.Enum(['asc', 'desc'], { description: '`desc`, newest first, unless `asc` is asked for.' }),
    ),
    ...pageQuery,
  },
  { additionalProperties: false },
)

export const oldestKept = choice(84, 'A position before the oldest event that is kept is answered 410.')

export function eventLogRoutes(deps: { db: Database }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/platform/v1/organizations/:orgId/events',
      needs: 'events:read',
      audit: null,
      basis: here,
      choices: [oldestKept],
      tag: 'Event log',
      summary: 'List events',
      description:
        'The events of the organization by their numbers, whether a webhook was subscribed to them or not. Test events are not in it.',
      query: listQuery,
      faults: ['events.expired'],
      success: { status: 200, description: 'The events.', schema: Type.Array(eventRecord) },
      async handler({ orgId, query }) {
        const filter = await readFilter(deps.db, query)
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
              return events
            },
            keyOf: (row: LoggedEvent) => row.sequence,
            record: eventRecordOf,
            isKey: (text) => /^[1-9]\d{0,14}$/.test(text),
            rowsAtOnce: 50,
          },
        }
      },
    }),
  ]
}

export const positionExpired = (expired: number): Fault =>
  new Fault('events.expired', {
    public: `The events up to ${expired} are not all kept any more. Start at \`oldest_sequence\`, and read the state that you missed from the API.`,
    members: { oldest_sequence: expired + 1 },
  })

type ReadFilter = Omit<EventFilter, 'after'> & { after: number | null }

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
