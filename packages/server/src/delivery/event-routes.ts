import Type from 'typebox'
import type { Database } from '../db/database.ts'
import { choice, chosen, mark } from '../http/basis.ts'
import { onlyPageQuery } from '../http/lists.ts'
import { type Listing, type Route, route } from '../http/route.ts'
import { createdAt, exampleId, id, nullable, timestamp } from '../http/schemas.ts'
import { notFound } from '../lib/faults.ts'
import { attemptIdOf } from '../lib/ids.ts'
import { parseExactly } from '../lib/json.ts'
import { isoTime } from '../lib/time.ts'
import { isTypeName } from './event-declarations.ts'
import { findEvent } from './event-log-sql.ts'
import { acceptedEventType, shownEventType } from './event-type-schemas.ts'
import { listEventTypes } from './event-types.ts'
import { type CustomEventType, eventTypes, firesWhen, sampleData } from './events.ts'
import { type EventAttemptRow, type EventWebhookRow, listAttemptsOfEvent, listWebhooksOfEvent } from './history-sql.ts'
import { attemptStatuses, redelivered } from './schemas.ts'
import { sendErrorCodes } from './send-errors.ts'

const here = chosen(40)

const attempt = Type.Object(
  {
    id: id('dlv', 'The attempt.'),
    attempt: Type.Integer({ description: 'Which attempt of its delivery it is, counted from 1.' }),
    status: Type.Enum([...attemptStatuses], { description: 'How it stands.' }),
    started_at: timestamp('When it began.'),
    duration_ms: nullable(Type.Number({ description: 'How long it took.', examples: [48.2] })),
    response_status: nullable(Type.Integer({ description: 'The HTTP status of the answer; null without one.' })),
    error_code: nullable(Type.Enum([...sendErrorCodes], { description: 'What went wrong; null if nothing did.' })),
    next_attempt_at: nullable(timestamp('When it is tried again.')),
    redelivered: redelivered(),
  },
  { additionalProperties: false },
)

const webhook = () => ({
  webhook_id: id('wh', 'The webhook.'),
  url: Type.String({ description: 'Its URL.', examples: ['https://example.com/hooks'] }),
})

const reasons = ['not_subscribed', 'webhook_created_later', 'webhook_deleted', 'sample_for_another_webhook'] as const

const eventRecord = Type.Object(
  {
    id: Type.String({ description: 'The event.', examples: [exampleId('evt')] }),
    sequence: mark(
      chosen(81),
      nullable(Type.Integer({ minimum: 1, description: 'Its number in the organization; null for a test event.' })),
    ),
    type: shownEventType('Its type.'),
    created_at: createdAt(),
    test: Type.Boolean({ description: 'Whether it is a test event.' }),
    body: Type.String({ description: 'Exactly what is sent.', examples: ['{"id":"…"}'] }),
    delivered_to: Type.Array(
      Type.Object(
        {
          ...webhook(),
          status: Type.Enum(['waiting', 'sending', 'succeeded', 'failed', 'expired'], {
            description: 'How the delivery stands. Expired: it is finished, and its attempts have left the history.',
          }),
          attempts: Type.Array(attempt, { description: 'Its attempts so far, in order.' }),
        },
        { additionalProperties: false },
      ),
      { description: 'The webhooks it goes to.' },
    ),
    not_delivered_to: Type.Array(
      Type.Object(
        {
          ...webhook(),
          reason: Type.Enum([...reasons], { description: 'Why not.' }),
        },
        { additionalProperties: false },
      ),
      { description: 'The webhooks it does not go to, except those that were deleted before it.' },
    ),
  },
  { $id: 'Event', additionalProperties: false, ...here },
)

export function webhookEventRoutes(deps: { db: Database }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/platform/v1/organizations/:orgId/events/:eventId',
      needs: 'deliveries:read',
      audit: null,
      basis: here,
      tag: 'Deliveries',
      summary: 'Explain an event',
      description: 'Where one event went and where it did not, and why; with every attempt.',
      success: { status: 200, description: 'The event.', schema: eventRecord },
      async handler({ orgId, params: { eventId } }) {
        const event = await findEvent(deps.db, orgId, eventId)
        if (event === null) throw notFound(`no event of this id in ${orgId}`)
        // In this order: a delivery that the first query shows as started has an attempt in the second, unless that expired.
        const webhooks = await listWebhooksOfEvent(deps.db, orgId, event)
        const addressed = webhooks.filter((row) => row.addressed)
        const lanes = addressed.map((row) => row.lane_id)
        const attempts = await listAttemptsOfEvent(deps.db, orgId, { seq: event.seq, lanes })
        const byLane = Map.groupBy(attempts, (row) => row.lane_id)
        return {
          status: 200,
          body: {
            id: event.id,
            sequence: event.sequence === null ? null : Number(event.sequence),
            type: event.type,
            created_at: isoTime(event.created_at),
            test: event.sample,
            body: event.body,
            delivered_to: addressed.map((row) => deliveryOf(row, byLane.get(row.lane_id) ?? [])),
            not_delivered_to: webhooks
              .filter((row) => !row.addressed)
              .map((row) => ({ webhook_id: row.id, url: row.url, reason: reasonOf(row, event.sample) })),
          },
        }
      },
    }),
  ]
}

function reasonOf(row: EventWebhookRow, isSample: boolean): (typeof reasons)[number] {
  if (!row.subscribed) return 'not_subscribed'
  if (row.created_later) return 'webhook_created_later'
  if (row.deleted) return 'webhook_deleted'
  if (row.subscribed_later) return isSample ? 'sample_for_another_webhook' : 'not_subscribed'
  // `created_at` is when the creation began: a webhook that looks older and was not addressed was committed after the event.
  return isSample ? 'sample_for_another_webhook' : 'webhook_created_later'
}

const deliveryOf = (row: EventWebhookRow, attempts: readonly EventAttemptRow[]) => ({
  webhook_id: row.id,
  url: row.url,
  status: statusOf(row, attempts),
  attempts: attempts.map((one) => ({
    id: attemptIdOf(one.id),
    attempt: one.attempt,
    status: one.status,
    started_at: isoTime(one.started_at),
    duration_ms: one.duration_us === null ? null : one.duration_us / 1_000,
    response_status: one.response_status,
    error_code: one.error_code,
    next_attempt_at: one.next_attempt_at && isoTime(one.next_attempt_at),
    redelivered: one.redelivered,
  })),
})

function statusOf(row: EventWebhookRow, attempts: readonly EventAttemptRow[]) {
  const last = attempts.at(-1)
  if (last?.status === 'sending') return 'sending'
  if (row.waiting_until !== null) return row.deleted ? 'failed' : 'waiting'
  if (last === undefined) return row.started ? 'expired' : row.deleted ? 'failed' : 'waiting'
  return last.status === 'succeeded' ? 'succeeded' : 'failed'
}

const body = (type: string, data: unknown) => ({
  id: 'evt_00000000000000000000000000',
  type,
  timestamp: '2026-01-31T12:00:00.000Z',
  data,
})

const eventType = Type.Object(
  {
    name: acceptedEventType('What a webhook subscribes to.'),
    description: Type.String({ description: 'When it fires.', examples: [firesWhen['database.created']] }),
    custom: Type.Boolean({ description: 'Whether it is beside the six: declared or enabled by the operator.' }),
    example: Type.Record(Type.String(), Type.Unknown(), {
      description: 'A body as it would be sent.',
      examples: [body('database.created', sampleData('database.created'))],
    }),
  },
  { $id: 'EventType', additionalProperties: false, ...chosen(93) },
)

type Row = { name: string; description: string; custom: boolean; example: object }

const published: Row[] = eventTypes.map((name) => ({
  name,
  description: firesWhen[name],
  custom: false,
  example: body(name, sampleData(name)),
}))

const declared = ({ name, description, example }: CustomEventType): Row => ({
  name,
  description,
  custom: true,
  example: body(name, parseExactly(example)),
})

export function eventTypeRoutes(deps: { db: Database }): Route[] {
  const list: Listing<Row> = {
    async page({ before, limit }) {
      const all = [...published, ...(await listEventTypes(deps.db)).map(declared)]
      const start = before === null ? 0 : startAfter(all, before)
      return all.slice(start, start + limit)
    },
    keyOf: (row) => row.name,
    record: (row) => row,
    isKey: isTypeName,
  }
  return [
    route({
      method: 'GET',
      path: '/platform/v1/organizations/:orgId/event-types',
      needs: 'webhooks:read',
      audit: null,
      basis: chosen(93),
      choices: [choice(176, 'Optional types, such as `key.revoked`, are in it while the operator has them enabled.')],
      tag: 'Webhooks',
      summary: 'List event types',
      description:
        'What a webhook can subscribe to: the six types of the interface, then those that the operator has declared or enabled, by name.',
      query: onlyPageQuery,
      success: {
        status: 200,
        description: 'The event types.',
        schema: Type.Array(eventType, { description: 'The six first.' }),
      },
      handler: () => ({ status: 200, list }),
    }),
  ]
}

/** The place after a name, which may be gone since. The declared types are in the order of their names. */
function startAfter(all: readonly Row[], name: string): number {
  const place = all.findIndex((row) => row.name === name)
  if (place >= 0) return place + 1
  const next = all.findIndex((row) => row.custom && row.name > name)
  return next === -1 ? all.length : next
}
