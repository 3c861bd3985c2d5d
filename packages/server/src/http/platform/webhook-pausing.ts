import Type from 'typebox'
import type { Database } from '../../db/database.ts'
import { pauseMsDefault, pauseMsMax } from '../../domain/webhook.ts'
import { invalid, notFound } from '../../kernel/faults.ts'
import type { OrgId, WebhookId } from '../../kernel/ids.ts'
import { isoTime } from '../../kernel/iso-time.ts'
import { recordAudit } from '../../store/audit.ts'
import { databaseNowMs } from '../../store/clock.ts'
import { isLanePaused, pauseLane, resumeLane } from '../../store/delivery/lane-requests.ts'
import type { Transact } from '../../store/publishing-transaction.ts'
import { lockWebhook } from '../../store/webhook-changes.ts'
import { waitForInFlightDeliveries } from '../in-flight-deliveries.ts'
import { momentDetail, parseMoment } from '../moments.ts'
import { type Route, route } from '../route.ts'
import { pauseBasis, webhookRecord } from './webhook-schemas.ts'

const path = '/platform/v1/organizations/:orgId/webhooks/:webhookId'

export function webhookPausingRoutes({
  db,
  transact,
  show,
}: {
  db: Database
  transact: Transact
  show(orgId: OrgId, id: WebhookId): Promise<object>
}): Route[] {
  return [
    route({
      method: 'POST',
      path: `${path}/pause`,
      needs: 'webhooks:update',
      audit: 'webhook.paused',
      basis: pauseBasis,
      tag: 'Webhook settings',
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
      faults: ['not_found'],
      success: { status: 200, description: 'The webhook, paused.', schema: webhookRecord },
      async decode(body) {
        // The pause ends by the clock of the database, which all nodes share.
        const nowMs = await databaseNowMs(db)
        const until = body.until === undefined ? new Date(nowMs + pauseMsDefault) : parseMoment(body.until)
        if (until === null) throw invalid([{ pointer: '/until', detail: momentDetail }])
        if (until.getTime() > nowMs && until.getTime() <= nowMs + pauseMsMax) return { until }
        throw invalid([{ pointer: '/until', detail: 'must lie in the future, within 30 days' }])
      },
      async handler({ orgId, actor, params: { webhookId: id }, body: { until } }) {
        await db.begin(async (tx) => {
          if ((await lockWebhook(tx, orgId, id)) === null) throw notFound(`${id} is not in ${orgId}`)
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
      tag: 'Webhook settings',
      summary: 'Resume a webhook',
      description: 'Ends a pause. What has waited is sent now. A webhook that is not paused stays as it is.',
      faults: ['not_found'],
      success: { status: 200, description: 'The webhook, active.', schema: webhookRecord },
      async handler({ orgId, actor, params: { webhookId: id } }) {
        await transact(async (tx) => {
          if ((await lockWebhook(tx, orgId, id)) === null) throw notFound(`${id} is not in ${orgId}`)
          if (!(await isLanePaused(tx, orgId, id))) return
          await resumeLane(tx, orgId, id)
          await recordAudit(tx, { orgId, action: 'webhook.resumed', actor, targetId: id })
          tx.hintAfterCommit(orgId)
        })
        return { status: 200, body: await show(orgId, id) }
      },
    }),
  ]
}
