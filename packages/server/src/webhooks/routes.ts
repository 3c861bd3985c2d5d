import Type from 'typebox'
import { type AuditEntry, recordAudit } from '../access/audit.ts'
import { findQuotas, limitOf, limitReached } from '../access/quotas.ts'
import type { Database, HoldOrganization, Transact } from '../db/database.ts'
import { lockDeclaredTypes } from '../delivery/event-types.ts'
import { choice, chosen, specified } from '../http/basis.ts'
import { listById, onlyPageQuery, onlyWholeListQuery } from '../http/lists.ts'
import { type Route, route } from '../http/route.ts'
import { notFound } from '../lib/faults.ts'
import { isId, newId, type OrgId, type WebhookId } from '../lib/ids.ts'
import type { MasterKeys } from '../lib/master-keys.ts'
import { isoTime } from '../lib/time.ts'
import { webhookChangeRoutes } from './change-routes.ts'
import { lockExisting, mintWebhookSecret, waitForInFlightDeliveries } from './rules.ts'
import { createdWebhook, newWebhook, webhookList, webhookRecord, webhookRecordOf, webhookUpdate } from './schemas.ts'
import {
  deleteWebhook,
  findWebhookRecord,
  insertWebhook,
  listWebhookRecords,
  listWebhooks,
  updateWebhook,
  type WebhookRecordRow,
  type WebhookRow,
} from './sql.ts'

const publishedPath = '/api/v1/organizations/:orgId/webhooks'

export function webhookRoutes(deps: {
  db: Database
  holdOrganization: HoldOrganization
  masterKeys: MasterKeys
  webhooksPerOrgMax: number
}): Route[] {
  return [
    route({
      method: 'POST',
      path: publishedPath,
      needs: 'webhooks:create',
      audit: 'webhook.created',
      basis: specified,
      choices: [choice(27, 'An organization has at most 10,000 webhooks, unless the operator has set another limit.')],
      tag: 'Webhooks',
      summary: 'Create a webhook',
      description:
        'Subscribes an HTTPS address to event types. `secret` signs every delivery; it is shown here and never again.',
      body: newWebhook,
      faults: ['limit.reached'],
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
          await lockDeclaredTypes(tx, body.event_types)
          const limit = limitOf((await findQuotas(tx, orgId)).webhooks, deps.webhooksPerOrgMax)
          const inserted = await insertWebhook(tx, orgId, stored, limit.max)
          if (inserted === null) throw limitReached(limit, 'webhooks', 'Delete one first.')
          await recordAudit(tx, { orgId, action: 'webhook.created', actor, targetId: id, details })
          return inserted
        })
        return {
          status: 201,
          location: `${publishedPath.replace(':orgId', orgId)}/${id}`,
          body: { ...record(row), secret },
        }
      },
    }),
    route({
      method: 'GET',
      path: publishedPath,
      needs: 'webhooks:read',
      audit: null,
      basis: specified,
      tag: 'Webhooks',
      summary: 'List webhooks',
      choices: [choice(2, 'Newest first.')],
      description: 'The webhooks of the organization.',
      query: onlyWholeListQuery,
      success: { status: 200, description: 'The webhooks. Never `secret`.', schema: webhookList },
      async handler({ orgId }) {
        return listById('wh', record, (request) => listWebhooks(deps.db, orgId, request))
      },
    }),
    route({
      method: 'DELETE',
      path: `${publishedPath}/:webhookId`,
      needs: 'webhooks:delete',
      audit: 'webhook.deleted',
      basis: specified,
      choices: [
        choice(12, 'A webhook that is deleted already is answered 404, and so are its deliveries.'),
        choice(24, 'No attempt starts after this answer, which waits up to half a second for attempts in flight.'),
      ],
      tag: 'Webhooks',
      summary: 'Delete a webhook',
      description: 'Ends the webhook.',
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

const platformPath = '/platform/v1/organizations/:orgId/webhooks'
const here = chosen(85)

/** Webhooks with everything that can be said of them and changed in them. */
export function webhookSettingsRoutes(deps: { db: Database; transact: Transact; masterKeys: MasterKeys }): Route[] {
  const { db } = deps

  async function show(orgId: OrgId, id: WebhookId): Promise<object> {
    const row = await findWebhookRecord(db, orgId, id, Date.now())
    if (row === null) throw notFound(`${id} is not in ${orgId}`)
    return webhookRecordOf(row)
  }

  return [
    ...webhookChangeRoutes({ ...deps, show }),
    route({
      method: 'GET',
      path: platformPath,
      needs: 'webhooks:read',
      audit: null,
      basis: here,
      tag: 'Webhooks',
      summary: 'List webhooks with their health',
      description: 'The webhooks of the organization, with their settings and how deliveries went lately.',
      query: onlyPageQuery,
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
      path: `${platformPath}/:webhookId`,
      needs: 'webhooks:read',
      audit: null,
      basis: here,
      tag: 'Webhooks',
      summary: 'Show a webhook',
      description: 'One webhook, with its settings and how deliveries went lately.',
      success: { status: 200, description: 'The webhook. Never a secret.', schema: webhookRecord },
      async handler({ orgId, params: { webhookId: id } }) {
        return { status: 200, body: await show(orgId, id) }
      },
    }),
    route({
      method: 'PATCH',
      path: `${platformPath}/:webhookId`,
      needs: 'webhooks:update',
      audit: 'webhook.updated',
      basis: here,
      tag: 'Webhooks',
      summary: 'Update a webhook',
      description:
        'Changes the fields that are given, by the rules of creation; `null` removes a value. Event types count for events that are published after the answer. No delivery goes to an earlier URL after it. A suspended webhook is tried at a new URL at once.',
      body: webhookUpdate,
      success: { status: 200, description: 'The webhook with its changes.', schema: webhookRecord },
      async handler({ orgId, actor, params: { webhookId: id }, body }) {
        const details = await deps.transact(async (tx) => {
          const before = await lockExisting(tx, orgId, id)
          if (body.event_types !== undefined) await lockDeclaredTypes(tx, body.event_types)
          const changes = changesIn(before, body)
          if (Object.keys(changes).length === 0) return changes
          await updateWebhook(tx, orgId, id, before, { ...before, ...body })
          await recordAudit(tx, { orgId, action: 'webhook.updated', actor, targetId: id, details: changes })
          if ('url' in changes) tx.hintAfterCommit(orgId)
          return changes
        })
        if ('url' in details) await waitForInFlightDeliveries(db, orgId, id)
        return { status: 200, body: await show(orgId, id) }
      },
    }),
  ]
}

const changesIn = (before: object, given: object): NonNullable<AuditEntry['details']> =>
  Object.fromEntries(
    Object.entries(given).filter(
      ([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name as keyof typeof before]),
    ),
  )
