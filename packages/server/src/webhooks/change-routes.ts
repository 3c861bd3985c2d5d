import Type from 'typebox'
import { recordAudit } from '../access/audit.ts'
import { type Database, databaseNowMs, type Transact, type Transaction } from '../db/database.ts'
import { isLanePaused, pauseLane, resumeLane } from '../delivery/lane-sql.ts'
import { pauseMsMax } from '../delivery/retry-schedule.ts'
import { type Created, type Route, route } from '../http/route.ts'
import { Fault, invalid } from '../lib/faults.ts'
import type { OrgId, WebhookId } from '../lib/ids.ts'
import type { MasterKeys } from '../lib/master-keys.ts'
import { isoTime, parseTimestamp, timestampDetail } from '../lib/time.ts'
import {
  afterSwitchSecondsDefault,
  lockExisting,
  mintWebhookSecret,
  overlapSecondsMax,
  pauseMsDefault,
  waitForInFlightDeliveries,
} from './rules.ts'
import { newSecret, pauseBasis, rotationBasis, secretRotationOf, webhookRecord } from './schemas.ts'
import { endRotation, lockRotation, rotateSecret, switchSecret } from './secrets-sql.ts'

const path = '/platform/v1/organizations/:orgId/webhooks/:webhookId'

/** Pausing a webhook, and replacing its secret. */
export function webhookChangeRoutes(deps: {
  db: Database
  transact: Transact
  masterKeys: MasterKeys
  show(orgId: OrgId, id: WebhookId): Promise<object>
}): Route[] {
  const { db, transact, masterKeys, show } = deps
  return [
    route({
      method: 'POST',
      path: `${path}/pause`,
      needs: 'webhooks:update',
      audit: 'webhook.paused',
      basis: pauseBasis,
      tag: 'Webhooks',
      summary: 'Pause a webhook',
      description:
        'No attempt starts after the answer. Events and retries wait, test events too, and are sent in order when the pause ends. A webhook that is paused already gets the new end.',
      body: Type.Object(
        {
          until: Type.Optional(
            Type.String({
              maxLength: 40,
              format: 'date-time',
              description: 'When the pause ends (RFC 3339), 30 days from now at most; 7 days from now when absent.',
              examples: ['2026-02-01T06:00:00Z'],
            }),
          ),
        },
        { $id: 'NewPause', additionalProperties: false, ...pauseBasis },
      ),
      success: { status: 200, description: 'The webhook, paused.', schema: webhookRecord },
      async decode(body) {
        // The pause ends by the clock of the database, which all nodes share.
        const nowMs = await databaseNowMs(db)
        const until = body.until === undefined ? new Date(nowMs + pauseMsDefault) : parseTimestamp(body.until)
        if (until === null) throw invalid([{ pointer: '/until', detail: timestampDetail }])
        if (until.getTime() > nowMs && until.getTime() <= nowMs + pauseMsMax) return { until }
        throw invalid([{ pointer: '/until', detail: 'must lie in the future, within 30 days' }])
      },
      async handler({ orgId, actor, params: { webhookId: id }, body: { until } }) {
        await db.begin(async (tx) => {
          await lockExisting(tx, orgId, id)
          await pauseLane(tx, orgId, id, until)
          const details = { until: isoTime(until) }
          await recordAudit(tx, { orgId, action: 'webhook.paused', actor, targetId: id, details })
        })
        await waitForInFlightDeliveries(db, orgId, id)
        return { status: 200, body: await show(orgId, id) }
      },
    }),
    route({
      method: 'POST',
      path: `${path}/resume`,
      needs: 'webhooks:update',
      audit: 'webhook.resumed',
      basis: pauseBasis,
      tag: 'Webhooks',
      summary: 'Resume a webhook',
      description: 'Ends a pause. What has waited is sent now. A webhook that is not paused stays as it is.',
      success: { status: 200, description: 'The webhook, active.', schema: webhookRecord },
      async handler({ orgId, actor, params: { webhookId: id } }) {
        await transact(async (tx) => {
          await lockExisting(tx, orgId, id)
          if (!(await isLanePaused(tx, orgId, id))) return
          await resumeLane(tx, orgId, id)
          await recordAudit(tx, { orgId, action: 'webhook.resumed', actor, targetId: id })
          tx.hintAfterCommit(orgId)
        })
        return { status: 200, body: await show(orgId, id) }
      },
    }),
    route({
      method: 'POST',
      path: `${path}/rotate-secret`,
      needs: 'webhooks:update',
      audit: 'webhook.secret_rotated',
      basis: rotationBasis,
      tag: 'Webhooks',
      summary: 'Rotate the secret of a webhook',
      description:
        'Makes a new secret, which is shown here and never again. During the overlap `webhook-signature` holds a signature of each secret, and `X-<Service>-Signature` is made with the old one until you switch. Test events are signed with the new secret alone, so that you can try your receiver before the switch. Until then another call replaces the new secret; between the switch and the end of the old secret it is refused, unless `overlap_seconds` is 0. After the overlap, or at once without one, only the new secret signs.',
      body: Type.Object(
        {
          overlap_seconds: overlap(
            'How long both secrets are valid unless you switch: 30 days when absent, 0 for not at all.',
          ),
        },
        { $id: 'NewSecret', additionalProperties: false, ...rotationBasis },
      ),
      faults: ['webhook.old_secret_valid'],
      success: { status: 201, description: 'The new secret. Keep it: it cannot be shown again.', schema: newSecret },
      async handler({ orgId, actor, params: { webhookId: id }, body, once }) {
        const overlapSeconds = body.overlap_seconds ?? overlapSecondsMax
        const rotate = async (tx: Transaction): Promise<Created> => {
          const secret = mintWebhookSecret()
          if ((await lock(tx, orgId, id))?.switched && overlapSeconds > 0) throw alreadySwitched()
          await rotateSecret(tx, orgId, id, { secret: masterKeys.seal(secret, id), overlapSeconds })
          const details = { overlap_seconds: overlapSeconds }
          await recordAudit(tx, { orgId, action: 'webhook.secret_rotated', actor, targetId: id, details })
          const rotation = await lockRotation(tx, orgId, id)
          const withoutSecrets = { secret_rotation: rotation && secretRotationOf(rotation) }
          const location = path.replace(':orgId', orgId).replace(':webhookId', id)
          return { status: 201, location, body: { secret, ...withoutSecrets }, withoutSecrets }
        }
        const answer = await db.begin((tx) => once(tx, () => rotate(tx)))
        // Without an overlap nothing may be signed with the old secret after the answer.
        if (overlapSeconds === 0) await waitForInFlightDeliveries(db, orgId, id)
        return answer
      },
    }),
    route({
      method: 'POST',
      path: `${path}/switch-secret`,
      needs: 'webhooks:update',
      audit: 'webhook.secret_switched',
      basis: rotationBasis,
      tag: 'Webhooks',
      summary: 'Switch to the new secret of a webhook',
      description:
        '`X-<Service>-Signature` is made with the new secret after the answer. `webhook-signature` keeps both signatures until the old secret ends. Once switched, a webhook stays so; another call changes when the old secret ends.',
      body: Type.Object(
        { overlap_seconds: overlap('How long the old secret stays valid: a day when absent, 0 for not at all.') },
        { $id: 'SecretSwitch', additionalProperties: false, ...rotationBasis },
      ),
      faults: ['webhook.not_rotating'],
      success: { status: 200, description: 'The webhook, switched.', schema: webhookRecord },
      async handler({ orgId, actor, params: { webhookId: id }, body }) {
        const overlapSeconds = body.overlap_seconds ?? afterSwitchSecondsDefault
        await db.begin(async (tx) => {
          if ((await lock(tx, orgId, id)) === null) throw notRotating()
          if (overlapSeconds === 0) await endRotation(tx, orgId, id)
          else await switchSecret(tx, orgId, id, overlapSeconds)
          const details = { overlap_seconds: overlapSeconds }
          await recordAudit(tx, { orgId, action: 'webhook.secret_switched', actor, targetId: id, details })
        })
        await waitForInFlightDeliveries(db, orgId, id)
        return { status: 200, body: await show(orgId, id) }
      },
    }),
  ]
}

async function lock(tx: Transaction, orgId: OrgId, id: WebhookId) {
  await lockExisting(tx, orgId, id)
  return lockRotation(tx, orgId, id)
}

const overlap = (description: string) =>
  Type.Optional(
    Type.Integer({ minimum: 0, maximum: overlapSecondsMax, description, examples: [afterSwitchSecondsDefault] }),
  )

const alreadySwitched = () =>
  new Fault('webhook.old_secret_valid', {
    public:
      'The old secret of this webhook is still valid after the switch. Wait for its end, end it with another switch, or rotate with an overlap of 0.',
  })

const notRotating = () =>
  new Fault('webhook.not_rotating', { public: 'This webhook has one secret: there is nothing to switch.' })
