import Type from 'typebox'
import type { Database } from '../../db/database.ts'
import type { AuditEntry } from '../../domain/audit.ts'
import { notFound } from '../../kernel/faults.ts'
import { isId, type OrgId, type WebhookId } from '../../kernel/ids.ts'
import type { MasterKeys } from '../../kernel/master-keys.ts'
import { recordAudit } from '../../store/audit.ts'
import type { Transact } from '../../store/publishing-transaction.ts'
import { lockWebhook, updateWebhook } from '../../store/webhook-changes.ts'
import { findWebhookRecord, listWebhookRecords, type WebhookRecordRow } from '../../store/webhook-records.ts'
import { chosen } from '../basis.ts'
import { keepDeclared } from '../declared-event-types.ts'
import { waitForInFlightDeliveries } from '../in-flight-deliveries.ts'
import { onlyPageQuery } from '../lists.ts'
import { type Route, route } from '../route.ts'
import { webhookPausingRoutes } from './webhook-pausing.ts'
import { webhookRecord, webhookRecordOf, webhookUpdate } from './webhook-schemas.ts'
import { webhookSecretRoutes } from './webhook-secrets.ts'

const path = '/platform/v1/organizations/:orgId/webhooks'
const here = chosen(85)

/** Webhooks with everything that can be said of them and changed in them. */
export function webhookSettingsRoutes({
  db,
  transact,
  masterKeys,
}: {
  db: Database
  transact: Transact
  masterKeys: MasterKeys
}): Route[] {
  async function show(orgId: OrgId, id: WebhookId): Promise<object> {
    const row = await findWebhookRecord(db, orgId, id, Date.now())
    if (row === null) throw notFound(`${id} is not in ${orgId}`)
    return webhookRecordOf(row)
  }

  return [
    ...webhookPausingRoutes({ db, transact, show }),
    ...webhookSecretRoutes({ db, masterKeys, show }),
    route({
      method: 'GET',
      path,
      needs: 'webhooks:read',
      audit: null,
      basis: here,
      tag: 'Webhook settings',
      summary: 'List webhooks with their health',
      description: 'The webhooks of the organization, with their settings and how deliveries went lately.',
      query: onlyPageQuery,
      faults: ['not_found'],
      success: { status: 200, description: 'The webhooks. Never a secret.', schema: Type.Array(webhookRecord) },
      async handler({ orgId }) {
        return {
          status: 200,
          list: {
            page: (request) => listWebhookRecords(db, orgId, { ...request, nowMs: Date.now() }),
            keyOf: (row: WebhookRecordRow) => row.id,
            record: webhookRecordOf,
            isKey: (text) => isId('wh', text),
            // Each of them may read thousands of index entries.
            rowsAtOnce: 50,
          },
        }
      },
    }),
    route({
      method: 'GET',
      path: `${path}/:webhookId`,
      needs: 'webhooks:read',
      audit: null,
      basis: here,
      tag: 'Webhook settings',
      summary: 'Show a webhook',
      description: 'One webhook, with its settings and how deliveries went lately.',
      faults: ['not_found'],
      success: { status: 200, description: 'The webhook. Never a secret.', schema: webhookRecord },
      async handler({ orgId, params: { webhookId: id } }) {
        return { status: 200, body: await show(orgId, id) }
      },
    }),
    route({
      method: 'PATCH',
      path: `${path}/:webhookId`,
      needs: 'webhooks:update',
      audit: 'webhook.updated',
      basis: here,
      tag: 'Webhook settings',
      summary: 'Update a webhook',
      description:
        'Changes the fields that are given, by the rules of creation; `null` removes a value. Event types count for events that are published after the answer. No delivery goes to an earlier URL after it.',
      body: webhookUpdate,
      faults: ['not_found'],
      success: { status: 200, description: 'The webhook with its changes.', schema: webhookRecord },
      async handler({ orgId, actor, params: { webhookId: id }, body }) {
        const details = await db.begin(async (tx) => {
          const before = await lockWebhook(tx, orgId, id)
          if (before === null) throw notFound(`${id} is not in ${orgId}`)
          if (body.event_types !== undefined) await keepDeclared(tx, body.event_types)
          const changes = changesIn(before, body)
          if (Object.keys(changes).length === 0) return changes
          await updateWebhook(tx, orgId, id, before, { ...before, ...body })
          await recordAudit(tx, { orgId, action: 'webhook.updated', actor, targetId: id, details: changes })
          return changes
        })
        if ('url' in details) await waitForInFlightDeliveries(db, orgId, id)
        return { status: 200, body: await show(orgId, id) }
      },
    }),
  ]
}

/** The fields whose value changes. */
const changesIn = (before: object, given: object): NonNullable<AuditEntry['details']> =>
  Object.fromEntries(
    Object.entries(given).filter(
      ([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name as keyof typeof before]),
    ),
  )
