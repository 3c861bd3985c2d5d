import Type from 'typebox'
import { type Database, databaseNowMs, type PageRequest } from '../db/database.ts'
import { choice, chosen, mark, specified } from '../http/basis.ts'
import { onlyWholeListQuery, pageQuery } from '../http/lists.ts'
import { type Answer, type Listing, type Route, route } from '../http/route.ts'
import { id } from '../http/schemas.ts'
import { invalid, notFound } from '../lib/faults.ts'
import { type AttemptId, attemptIdOf, attemptUuid, idPattern, isId, type WebhookId } from '../lib/ids.ts'
import { timestampParameter } from '../lib/time.ts'
import { eventTypesQuery, timestampQuery } from './event-log-routes.ts'
import { readTypeFilter } from './event-types.ts'
import { findLane, type HistoryRow, listAttempts, summarizeAttempts } from './history-sql.ts'
import {
  attemptsSearchedMax,
  findOrganizationAttempt,
  listOrganizationAttempts,
  type OrganizationAttemptRow,
  rareEventsMax,
} from './organization-history-sql.ts'
import {
  attemptStatuses,
  deliveryRecord,
  deliveryRecordOf,
  deliverySummary,
  deliverySummaryOf,
  redelivered,
} from './schemas.ts'
import { sendErrorCodes } from './send-errors.ts'

export function deliveryRoutes(deps: { db: Database }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/api/v1/organizations/:orgId/webhooks/:webhookId/deliveries',
      needs: 'deliveries:read',
      audit: null,
      basis: specified,
      choices: [
        choice(18, 'An attempt is recorded before its request leaves.'),
        choice(45, 'Attempts are kept for ever, unless the operator has set a number of days.'),
      ],
      tag: 'Deliveries',
      summary: 'List delivery attempts',
      description: 'Every attempt to deliver an event to this webhook, with its status and the response.',
      query: onlyWholeListQuery,
      success: { status: 200, description: 'The attempts.', schema: Type.Array(deliveryRecord) },
      async handler({ orgId, params: { webhookId: id } }) {
        const lane = await findLane(deps.db, orgId, id)
        if (lane === null) throw notFound(`${id} is not in ${orgId}`)
        return listOf(
          (request) => listAttempts(deps.db, orgId, lane.laneId, request),
          (row) => deliveryRecordOf(row, lane.url),
        )
      },
    }),
  ]
}

const path = '/platform/v1/organizations/:orgId'
const here = chosen(110)
const dayMs = 24 * 3_600_000
const intervalsMax = 1_000

const webhookQuery = Type.Optional(
  Type.String({ pattern: idPattern('wh'), description: 'Only attempts to this webhook.' }),
)

const listQuery = Type.Object(
  {
    webhook_id: webhookQuery,
    status: Type.Optional(Type.Enum([...attemptStatuses], { description: 'Only these.' })),
    event_types: eventTypesQuery,
    event_id: Type.Optional(
      Type.String({ pattern: '^[\\w:-]{1,128}$', description: 'Only attempts to deliver this event.' }),
    ),
    response_status: Type.Optional(
      Type.String({
        pattern: '^([1-5]\\d\\d|[1-5]xx|none)$',
        description:
          'The HTTP status of the answer: one such as `500`, a class such as `4xx`, or `none`: failed without an answer.',
        examples: ['5xx'],
      }),
    ),
    error_code: Type.Optional(Type.Enum([...sendErrorCodes], { description: 'Only attempts with this error.' })),
    since: timestampQuery('Attempts that started from this time on (RFC 3339).'),
    until: timestampQuery('Attempts that started before this time.'),
    ...pageQuery,
  },
  { additionalProperties: false },
)

const summaryQuery = Type.Object(
  {
    webhook_id: webhookQuery,
    since: timestampQuery('From this time on (RFC 3339); a day ago unless given.'),
    until: timestampQuery('Before this time; now unless given.'),
    bucket_seconds: Type.Optional(
      Type.Integer({ minimum: 60, maximum: 86_400, description: 'The length of an interval; an hour unless given.' }),
    ),
  },
  { additionalProperties: false },
)

/** `500`, `5xx` or `none`. */
function statusRange(text: string): { from: number; to: number } | 'none' {
  if (text === 'none') return text
  return { from: Number(text.replaceAll('x', '0')), to: Number(text.replaceAll('x', '9')) }
}

const { status, response, ...others } = deliveryRecord.properties
const record = Type.Object(
  {
    webhook_id: mark(here, id('wh', 'Where it was sent.')),
    ...others,
    // The interface specifies these two for another list.
    status: mark(here, { ...status }),
    response: mark(here, { ...response }),
    redelivered: redelivered(),
  },
  { $id: 'OrganizationDelivery', additionalProperties: false, ...chosen(18) },
)

const recordOf = (row: OrganizationAttemptRow) => ({
  webhook_id: row.webhook_id,
  ...deliveryRecordOf(row, row.url),
  redelivered: row.redelivered,
})

function listOf<Row extends HistoryRow>(
  page: (request: PageRequest) => PromiseLike<readonly Row[]>,
  record: (row: Row) => object,
): Answer {
  const list: Listing<Row> = {
    page: async ({ before, limit }) => page({ before: before && attemptUuid(before as AttemptId), limit }),
    keyOf: (row) => attemptIdOf(row.id),
    record,
    isKey: (text) => isId('dlv', text),
    rowsAtOnce: 50,
  }
  return { status: 200, list }
}

/** Attempts to all webhooks of an organization: a list with filters, one of them, and numbers for charts. */
export function organizationDeliveryRoutes({ db }: { db: Database }): Route[] {
  return [
    route({
      method: 'GET',
      path: `${path}/deliveries`,
      needs: 'deliveries:read',
      audit: null,
      basis: here,
      tag: 'Deliveries',
      summary: 'List attempts to all webhooks',
      description: `Every attempt to deliver an event of the organization, newest first. Those to deleted webhooks are not in it. Of a type with more than ${rareEventsMax.toLocaleString('en')} events, of those that succeeded, and by answer or error, the newest ${attemptsSearchedMax.toLocaleString('en')} attempts of each webhook in the time range are searched, or the newest that did not succeed.`,
      query: listQuery,
      success: { status: 200, description: 'The attempts.', schema: Type.Array(record) },
      async handler({ orgId, query }) {
        const filter = {
          webhookId: (query.webhook_id ?? null) as WebhookId | null,
          status: query.status ?? null,
          types: await readTypeFilter(db, query.event_types),
          eventId: query.event_id ?? null,
          responseStatus: query.response_status === undefined ? null : statusRange(query.response_status),
          errorCode: query.error_code ?? null,
          sinceMs: timestampParameter('since', query.since)?.getTime() ?? null,
          untilMs: timestampParameter('until', query.until)?.getTime() ?? null,
        }
        return listOf((request) => listOrganizationAttempts(db, orgId, filter, request), recordOf)
      },
    }),
    route({
      method: 'GET',
      path: `${path}/deliveries/:deliveryId`,
      needs: 'deliveries:read',
      audit: null,
      basis: here,
      tag: 'Deliveries',
      summary: 'Read an attempt',
      description: 'One attempt, with the webhook it went to.',
      success: { status: 200, description: 'The attempt.', schema: record },
      async handler({ orgId, params: { deliveryId } }) {
        const row = await findOrganizationAttempt(db, orgId, attemptUuid(deliveryId))
        if (row === null) throw notFound(`${deliveryId} is not in ${orgId}`)
        return { status: 200, body: recordOf(row) }
      },
    }),
    route({
      method: 'GET',
      path: `${path}/delivery-summary`,
      needs: 'deliveries:read',
      audit: null,
      basis: here,
      tag: 'Deliveries',
      summary: 'Summarize attempts',
      description: 'How many attempts succeeded and failed and how long they took: in all, over time, and by webhook.',
      query: summaryQuery,
      success: { status: 200, description: 'The numbers.', schema: deliverySummary },
      async handler({ orgId, query }) {
        const untilMs = timestampParameter('until', query.until)?.getTime() ?? (await databaseNowMs(db))
        const sinceMs = timestampParameter('since', query.since)?.getTime() ?? untilMs - dayMs
        const bucketSeconds = query.bucket_seconds ?? 3_600
        if (sinceMs >= untilMs)
          throw invalid([{ parameter: 'since', detail: 'must be before the end of the time range' }])
        if ((untilMs - sinceMs) / 1_000 / bucketSeconds > intervalsMax) {
          throw invalid([
            { parameter: 'bucket_seconds', detail: `must make at most ${intervalsMax} intervals of the time range` },
          ])
        }
        const asked = { webhookId: (query.webhook_id ?? null) as WebhookId | null, sinceMs, untilMs, bucketSeconds }
        return { status: 200, body: deliverySummaryOf(await summarizeAttempts(db, orgId, asked), asked) }
      },
    }),
  ]
}
