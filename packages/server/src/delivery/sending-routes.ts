import Type from 'typebox'
import { recordAudit } from '../access/audit.ts'
import {
  type Database,
  databaseNowMs,
  type HoldOrganization,
  type PublishingTransaction,
  type Transact,
  type Transaction,
} from '../db/database.ts'
import { chosen } from '../http/basis.ts'
import { unknownEventType } from '../http/problems.ts'
import { type Created, type Route, route } from '../http/route.ts'
import { createdAt, id, timestamp } from '../http/schemas.ts'
import { Fault, invalid, notFound } from '../lib/faults.ts'
import { attemptUuid, newId, type OrgId, type WebhookId } from '../lib/ids.ts'
import { parseExactly } from '../lib/json.ts'
import { isoTime, parseTimestamp, timestampDetail } from '../lib/time.ts'
import { acceptedEventType } from './event-type-schemas.ts'
import { findEventTypes } from './event-types.ts'
import { isPublishedType, sampleData } from './events.ts'
import { findLane } from './history-sql.ts'
import { publishSample } from './publish.ts'
import {
  countRecoverable,
  findRecovery,
  insertRecovery,
  lockWebhookRow,
  type RecoveryRow,
  redeliver,
} from './redelivery-sql.ts'

const path = '/platform/v1/organizations/:orgId/webhooks/:webhookId'

const recoveryBasis = chosen(39)

const recoveryRecord = Type.Object(
  {
    id: id('rcv', 'The recovery.'),
    status: Type.Enum(['running', 'finished'], { description: 'Whether everything has been put in line.' }),
    since: timestamp('Events from here on.'),
    until: timestamp('Events before this.'),
    redelivered: Type.Integer({ minimum: 0, description: 'Deliveries put in line again so far.' }),
    created_at: createdAt(),
    finished_at: Type.Union([timestamp('When the last was put in line.'), Type.Null()]),
  },
  { $id: 'Recovery', additionalProperties: false, ...recoveryBasis },
)

/** Test events, redelivery of one delivery, and recovery of all failed deliveries of a time range. */
export function webhookSendingRoutes(deps: {
  db: Database
  holdOrganization: HoldOrganization
  transact: Transact
}): Route[] {
  const { db } = deps

  async function keep(tx: Transaction, orgId: OrgId, id: WebhookId): Promise<void> {
    if (!(await lockWebhookRow(tx, orgId, id))) throw notFound(`${id} is not in ${orgId}`)
  }

  async function laneOf(orgId: OrgId, id: WebhookId): Promise<number> {
    const lane = await findLane(db, orgId, id)
    if (lane === null) throw notFound(`${id} is not in ${orgId}`)
    return lane.laneId
  }

  return [
    route({
      method: 'POST',
      path: `${path}/test`,
      needs: 'deliveries:send',
      audit: 'webhook.tested',
      basis: chosen(37),
      tag: 'Deliveries',
      summary: 'Send a test event',
      description:
        'Sends a sample of an event type to this webhook alone, subscribed or not. It is signed, retried and recorded like any event; its `data` holds `"test": true`.',
      body: Type.Object(
        { event_type: acceptedEventType('Which sample to send; of a declared type, its example.') },
        { $id: 'NewTestEvent', additionalProperties: false, ...chosen(37) },
      ),
      success: {
        status: 202,
        description: 'The test event is published.',
        schema: Type.Object(
          { event_id: id('evt', 'The sample.') },
          { $id: 'TestEvent', additionalProperties: false, ...chosen(37) },
        ),
      },
      async handler({ orgId, actor, params: { webhookId: hook }, body, once }) {
        const create = async (tx: PublishingTransaction): Promise<Created> => {
          await keep(tx, orgId, hook)
          const sample = await sampleOf(tx, body.event_type)
          const details = { event_type: body.event_type }
          await recordAudit(tx, { orgId, action: 'webhook.tested', actor, targetId: hook, details })
          const eventId = await publishSample(tx, { orgId, webhookId: hook }, sample)
          return { status: 202, body: { event_id: eventId } }
        }
        return deps.holdOrganization(orgId, (tx) => once(tx, () => create(tx)))
      },
    }),
    route({
      method: 'POST',
      path: `${path}/deliveries/:deliveryId/redeliver`,
      needs: 'deliveries:send',
      audit: 'delivery.redelivered',
      basis: chosen(38),
      tag: 'Deliveries',
      summary: 'Redeliver',
      description:
        'Sends the event of this attempt to the webhook once more, whatever became of it, with the whole retry schedule ahead. The same event keeps its id, so that a receiver can tell.',
      faults: ['delivery.in_flight'],
      success: {
        status: 202,
        description: 'It is due now.',
        schema: Type.Object(
          { delivery_id: id('dlv', 'The attempt that was named.') },
          { $id: 'Redelivery', additionalProperties: false, ...chosen(38) },
        ),
      },
      async handler({ orgId, actor, params: { webhookId: hook, deliveryId: attempt }, once }) {
        const create = async (tx: PublishingTransaction): Promise<Created> => {
          const outcome = await redeliver(tx, orgId, hook, attemptUuid(attempt))
          if (outcome === 'not_found') throw notFound(`${attempt} is not one of ${hook}'s`)
          if (outcome === 'in_flight') {
            throw new Fault('delivery.in_flight', { public: 'An attempt of this delivery is in flight right now.' })
          }
          const details = { webhook_id: hook }
          await recordAudit(tx, { orgId, action: 'delivery.redelivered', actor, targetId: attempt, details })
          tx.hintAfterCommit(orgId)
          return { status: 202, body: { delivery_id: attempt } }
        }
        return deps.transact((tx) => once(tx, () => create(tx)))
      },
    }),
    route({
      method: 'POST',
      path: `${path}/recover`,
      needs: 'deliveries:send',
      audit: 'webhook.recovered',
      basis: recoveryBasis,
      tag: 'Deliveries',
      summary: 'Recover deliveries',
      description:
        'Redelivers every event of a time range that was not delivered to this webhook: a job that survives restarts. With `dry_run` it only counts them.',
      body: Type.Object(
        {
          since: Type.String({
            maxLength: 40,
            format: 'date-time',
            description: 'Events from here on (RFC 3339).',
            examples: ['2026-01-31T12:00:00Z'],
          }),
          until: Type.Optional(
            Type.String({
              maxLength: 40,
              format: 'date-time',
              description: 'Events before this, which is later than `since`; now when absent.',
            }),
          ),
          dry_run: Type.Optional(Type.Boolean({ description: 'Count, and send nothing.' })),
        },
        { $id: 'NewRecovery', additionalProperties: false, ...recoveryBasis },
      ),
      success: {
        status: 202,
        description: 'How many deliveries it is about, and the job.',
        schema: Type.Object(
          {
            id: Type.Union([id('rcv', 'The job; null for a dry run.'), Type.Null()]),
            matching: Type.Integer({ minimum: 0, description: 'Deliveries that match right now.' }),
          },
          { $id: 'StartedRecovery', additionalProperties: false, ...recoveryBasis },
        ),
      },
      // Before the webhook is looked up: an invalid body is answered 422 whether the webhook exists or not.
      async decode(body) {
        const since = readTimestamp('/since', body.since)
        // Events have the time of the database; the clock of this node may differ.
        const until = body.until === undefined ? new Date(await databaseNowMs(db)) : readTimestamp('/until', body.until)
        // An empty range is a mistake: "0 matching" would look as if nothing had failed.
        if (since >= until) {
          throw invalid([
            body.until === undefined
              ? { pointer: '/since', detail: 'must lie in the past, or `until` after it' }
              : { pointer: '/until', detail: 'must be later than `since`' },
          ])
        }
        return { since, until, isDry: body.dry_run === true }
      },
      async handler({ orgId, actor, params: { webhookId: hook }, body: { since, until, isDry }, once }) {
        const range = { orgId, laneId: await laneOf(orgId, hook), since, until }
        const matching = await countRecoverable(db, range)
        if (isDry) return { status: 202, body: { id: null, matching } }
        const recovery = newId('rcv')
        const create = async (tx: PublishingTransaction): Promise<Created> => {
          await keep(tx, orgId, hook)
          await insertRecovery(tx, { id: recovery, ...range })
          const details = { since: since.toISOString(), until: until.toISOString(), recovery }
          await recordAudit(tx, { orgId, action: 'webhook.recovered', actor, targetId: hook, details })
          tx.hintAfterCommit(orgId)
          return { status: 202, body: { id: recovery, matching } }
        }
        return deps.transact((tx) => once(tx, () => create(tx)))
      },
    }),
    route({
      method: 'GET',
      path: `${path}/recoveries/:recoveryId`,
      needs: 'deliveries:read',
      audit: null,
      basis: recoveryBasis,
      tag: 'Deliveries',
      summary: 'Show a recovery',
      description: 'How far a recovery has come.',
      success: { status: 200, description: 'The recovery.', schema: recoveryRecord },
      async handler({ orgId, params: { webhookId, recoveryId } }) {
        const row = await findRecovery(db, orgId, webhookId, recoveryId)
        if (row === null) throw notFound('no such recovery of this webhook')
        return { status: 200, body: recoveryRecordOf(row) }
      },
    }),
  ]
}

/** The data of a test event. A declared type could have been removed since the request was checked. */
async function sampleOf(tx: Transaction, type: string): Promise<{ type: string; data: object }> {
  if (isPublishedType(type)) return { type, data: sampleData(type) }
  const [declared] = await findEventTypes(tx, [type])
  if (declared === undefined) throw unknownEventType('/event_type')
  return { type, data: parseExactly(declared.example) as object }
}

const recoveryRecordOf = (row: RecoveryRow) => ({
  id: row.id,
  status: row.finished_at === null ? 'running' : 'finished',
  since: isoTime(row.since),
  until: isoTime(row.until),
  redelivered: Number(row.redelivered),
  created_at: isoTime(row.created_at),
  finished_at: row.finished_at && isoTime(row.finished_at),
})

function readTimestamp(pointer: string, text: string): Date {
  const at = parseTimestamp(text)
  if (at === null) throw invalid([{ pointer, detail: timestampDetail }])
  return at
}
