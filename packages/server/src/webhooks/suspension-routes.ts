import Type from 'typebox'
import { recordAudit } from '../access/audit.ts'
import type { Database } from '../db/database.ts'
import { chosen } from '../http/basis.ts'
import { type Route, route } from '../http/route.ts'
import { nullable } from '../http/schemas.ts'
import { findSuspendAfterHours, setSuspendAfterHours } from './suspension-settings-sql.ts'

const path = '/platform/v1/organizations/:orgId/webhook-suspension'
const basis = chosen(179)

const hours = (description: string) => Type.Integer({ minimum: 0, maximum: 720, description, examples: [24] })

const settings = {
  after_hours: nullable(hours('Hours of nothing but failed attempts; 0: never. Null: as the operator has set it.')),
}

const newSuspension = Type.Object(settings, { $id: 'WebhookSuspension', additionalProperties: false, ...basis })

const suspension = Type.Object(
  { ...settings, operator_after_hours: hours('The number of the operator, for organizations without one.') },
  { $id: 'EffectiveWebhookSuspension', additionalProperties: false, ...basis },
)

/** When the webhooks of an organization are suspended. */
export function suspensionRoutes(deps: { db: Database; suspendAfterHours: number }): Route[] {
  const { db } = deps
  const answer = (after_hours: number | null) =>
    ({ status: 200, body: { after_hours, operator_after_hours: deps.suspendAfterHours } }) as const

  return [
    route({
      method: 'GET',
      path,
      needs: 'organizations:read',
      audit: null,
      basis,
      tag: 'Webhooks',
      summary: 'Show when webhooks are suspended',
      description: 'After how many hours of failing the webhooks of the organization are suspended.',
      success: { status: 200, description: 'The setting.', schema: suspension },
      async handler({ orgId }) {
        return answer(await findSuspendAfterHours(db, orgId))
      },
    }),
    route({
      method: 'PUT',
      path,
      needs: 'organizations:update',
      audit: 'organization.webhook_suspension_set',
      basis,
      tag: 'Webhooks',
      summary: 'Set when webhooks are suspended',
      description:
        'The deliveries of a webhook that has failed for so many hours wait, and it is tried every hour. Webhooks that are suspended already stay so until an attempt succeeds or their suspension ends.',
      body: newSuspension,
      success: { status: 200, description: 'The setting.', schema: suspension },
      async handler({ orgId, actor, body: { after_hours: after } }) {
        await db.begin(async (tx) => {
          const before = await setSuspendAfterHours(tx, orgId, after)
          if (before === after) return
          const details = { from: before, to: after }
          const action = 'organization.webhook_suspension_set'
          await recordAudit(tx, { orgId, action, actor, targetId: orgId, details })
        })
        return answer(after)
      },
    }),
  ]
}
