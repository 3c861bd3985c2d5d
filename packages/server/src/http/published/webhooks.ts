import type { Database } from '../../db/database.ts'
import { mintWebhookSecret } from '../../domain/webhook.ts'
import { Fault, notFound } from '../../kernel/faults.ts'
import { newId } from '../../kernel/ids.ts'
import { isoTime } from '../../kernel/iso-time.ts'
import type { MasterKeys } from '../../kernel/master-keys.ts'
import { recordAudit } from '../../store/audit.ts'
import type { HoldOrganization } from '../../store/hold-organization.ts'
import { deleteWebhook, insertWebhook, listWebhooks, type WebhookRow } from '../../store/webhooks.ts'
import { choice, specified } from '../basis.ts'
import { keepDeclared } from '../declared-event-types.ts'
import { waitForInFlightDeliveries } from '../in-flight-deliveries.ts'
import { listById, onlyWholeListQuery } from '../lists.ts'
import { type Route, route } from '../route.ts'
import { createdWebhook, newWebhook, webhookList } from './webhook-schemas.ts'

const path = '/api/v1/organizations/:orgId/webhooks'

export function webhookRoutes(deps: {
  db: Database
  holdOrganization: HoldOrganization
  masterKeys: MasterKeys
  webhooksPerOrgMax: number
}): Route[] {
  return [
    route({
      method: 'POST',
      path,
      needs: 'webhooks:create',
      audit: 'webhook.created',
      basis: specified,
      choices: [choice(27, 'An organization has at most 10,000 webhooks, unless the operator has set another limit.')],
      tag: 'Webhooks',
      summary: 'Create a webhook',
      description:
        'Subscribes an HTTPS address to event types. `secret` signs every delivery; it is shown here and never again.',
      body: newWebhook,
      faults: ['limit.reached', 'not_found'],
      success: {
        status: 201,
        description: 'The webhook. Keep `secret`: it cannot be shown again.',
        schema: createdWebhook,
      },
      async handler({ orgId, userId, actor, body }) {
        const id = newId('wh')
        const secret = mintWebhookSecret()
        const stored = {
          id,
          url: body.url,
          eventTypes: body.event_types,
          secret: deps.masterKeys.seal(secret, id),
          createdBy: userId,
        }
        const details = { url: body.url, event_types: [...body.event_types] }
        const row = await deps.holdOrganization(orgId, async (tx) => {
          await keepDeclared(tx, body.event_types)
          const inserted = await insertWebhook(tx, orgId, stored, deps.webhooksPerOrgMax)
          if (inserted === null) throw tooManyWebhooks(deps.webhooksPerOrgMax)
          await recordAudit(tx, { orgId, action: 'webhook.created', actor, targetId: id, details })
          return inserted
        })
        return { status: 201, location: `${path.replace(':orgId', orgId)}/${id}`, body: { ...record(row), secret } }
      },
    }),
    route({
      method: 'GET',
      path,
      needs: 'webhooks:read',
      audit: null,
      basis: specified,
      tag: 'Webhooks',
      summary: 'List webhooks',
      choices: [choice(2, 'Newest first.')],
      description: 'The webhooks of the organization.',
      query: onlyWholeListQuery,
      faults: ['not_found'],
      success: { status: 200, description: 'The webhooks. Never `secret`.', schema: webhookList },
      async handler({ orgId }) {
        return listById('wh', record, (request) => listWebhooks(deps.db, orgId, request))
      },
    }),
    route({
      method: 'DELETE',
      path: `${path}/:webhookId`,
      needs: 'webhooks:delete',
      audit: 'webhook.deleted',
      basis: specified,
      choices: [
        choice(12, 'A webhook that is deleted already is answered 404, and so are its deliveries.'),
        choice(24, 'No attempt starts after this answer, which waits up to half a second for deliveries in flight.'),
      ],
      tag: 'Webhooks',
      summary: 'Delete a webhook',
      description: 'Ends the webhook.',
      faults: ['not_found'],
      success: { status: 204, description: 'The webhook is deleted.' },
      async handler({ orgId, actor, params: { webhookId: id } }) {
        await deps.db.begin(async (tx) => {
          if (!(await deleteWebhook(tx, orgId, id))) throw notFound(`${id} is not in ${orgId}`)
          await recordAudit(tx, { orgId, action: 'webhook.deleted', actor, targetId: id })
        })
        await waitForInFlightDeliveries(deps.db, orgId, id)
        return { status: 204 }
      },
    }),
  ]
}

const record = (row: WebhookRow) => ({
  id: row.id,
  url: row.url,
  event_types: row.event_types,
  created_at: isoTime(row.created_at),
})

const tooManyWebhooks = (max: number): Fault =>
  new Fault('limit.reached', {
    public: `This organization has ${max} webhooks, the most it may have. Delete one first.`,
  })
