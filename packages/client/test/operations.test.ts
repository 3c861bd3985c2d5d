import { type Client, createClient } from '@keyhook/client'
import { createOperatorClient, type OperatorClient } from '@keyhook/client/operator'
import { expect, test } from 'vitest'
import type { Offered } from './support/operations.ts'

/*
 * Every method of the client calls its operation: with placeholders for ids, its path is that of the OpenAPI document.
 */

const calls: Record<keyof Offered, (client: Client, operator: OperatorClient) => unknown> = {
  'GET /api/v1/organizations': ({ organizations }) => organizations.list().page(),
  'PATCH /platform/v1/organizations/{org_id}': ({ organizations }) =>
    organizations.update('{org_id}', { name: 'Globex' }),
  'GET /platform/v1/organizations/{org_id}/quotas': ({ organizations }) => organizations.quotas(),
  'POST /api/v1/organizations/{org_id}/api-keys': ({ keys }) => keys.create({ name: 'ci' }),
  'GET /api/v1/organizations/{org_id}/api-keys': ({ keys }) => keys.list().page(),
  'DELETE /api/v1/organizations/{org_id}/api-keys/{api_key_id}': ({ keys }) => keys.revoke('{api_key_id}'),
  'POST /api/v1/organizations/{org_id}/webhooks': ({ webhooks }) => webhooks.create({ url: '', event_types: [] }),
  'GET /api/v1/organizations/{org_id}/webhooks/{webhook_id}/deliveries': ({ webhooks }) =>
    webhooks.deliveries('{webhook_id}').page(),
  'DELETE /api/v1/organizations/{org_id}/webhooks/{webhook_id}': ({ webhooks }) => webhooks.delete('{webhook_id}'),
  'POST /platform/v1/organizations/{org_id}/api-keys/{api_key_id}/revoke': ({ keys }) =>
    keys.revokeWithDescendants('{api_key_id}'),
  'POST /platform/v1/organizations/{org_id}/api-keys': ({ keys }) => keys.createRestricted({ name: 'ci' }),
  'GET /platform/v1/organizations/{org_id}/api-keys': ({ keys }) => keys.details().page(),
  'GET /platform/v1/organizations/{org_id}/api-keys/{api_key_id}': ({ keys }) => keys.get('{api_key_id}'),
  'PATCH /platform/v1/organizations/{org_id}/api-keys/{api_key_id}': ({ keys }) =>
    keys.update('{api_key_id}', { name: 'ci' }),
  'POST /platform/v1/organizations/{org_id}/api-keys/{api_key_id}/rotate': ({ keys }) => keys.rotate('{api_key_id}'),
  'GET /platform/v1/organizations/{org_id}/webhook-suspension': ({ webhooks }) => webhooks.suspension(),
  'PUT /platform/v1/organizations/{org_id}/webhook-suspension': ({ webhooks }) =>
    webhooks.setSuspension({ after_hours: 12 }),
  'GET /platform/v1/organizations/{org_id}/key-lifetime': ({ keys }) => keys.lifetime(),
  'PUT /platform/v1/organizations/{org_id}/key-lifetime': ({ keys }) => keys.setLifetime({ days_max: 90 }),
  'GET /platform/v1/organizations/{org_id}/webhooks': ({ webhooks }) => webhooks.list().page(),
  'GET /platform/v1/organizations/{org_id}/webhooks/{webhook_id}': ({ webhooks }) => webhooks.get('{webhook_id}'),
  'PATCH /platform/v1/organizations/{org_id}/webhooks/{webhook_id}': ({ webhooks }) =>
    webhooks.update('{webhook_id}', {}),
  'POST /platform/v1/organizations/{org_id}/webhooks/{webhook_id}/pause': ({ webhooks }) =>
    webhooks.pause('{webhook_id}'),
  'POST /platform/v1/organizations/{org_id}/webhooks/{webhook_id}/resume': ({ webhooks }) =>
    webhooks.resume('{webhook_id}'),
  'POST /platform/v1/organizations/{org_id}/webhooks/{webhook_id}/rotate-secret': ({ webhooks }) =>
    webhooks.rotateSecret('{webhook_id}'),
  'POST /platform/v1/organizations/{org_id}/webhooks/{webhook_id}/switch-secret': ({ webhooks }) =>
    webhooks.switchSecret('{webhook_id}'),
  'POST /platform/v1/organizations/{org_id}/webhooks/{webhook_id}/test': ({ webhooks }) =>
    webhooks.test('{webhook_id}', { event_type: 'invoice.paid' }),
  'POST /platform/v1/organizations/{org_id}/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver': ({ webhooks }) =>
    webhooks.redeliver('{webhook_id}', '{delivery_id}'),
  'POST /platform/v1/organizations/{org_id}/webhooks/{webhook_id}/recover': ({ webhooks }) =>
    webhooks.recover('{webhook_id}', { since: '' }),
  'GET /platform/v1/organizations/{org_id}/webhooks/{webhook_id}/recoveries/{recovery_id}': ({ webhooks }) =>
    webhooks.recovery('{webhook_id}', '{recovery_id}'),
  'GET /platform/v1/organizations/{org_id}/deliveries': ({ deliveries }) => deliveries.list().page(),
  'GET /platform/v1/organizations/{org_id}/delivery-summary': ({ deliveries }) => deliveries.summary({ since: '' }),
  'GET /platform/v1/organizations/{org_id}/deliveries/{delivery_id}': ({ deliveries }) =>
    deliveries.get('{delivery_id}'),
  'GET /platform/v1/organizations/{org_id}/members': ({ members }) => members.list().page(),
  'PUT /platform/v1/organizations/{org_id}/members/{user_id}': ({ members }) =>
    members.update('{user_id}', { role: 'admin' }),
  'DELETE /platform/v1/organizations/{org_id}/members/{user_id}': ({ members }) => members.remove('{user_id}'),
  'POST /platform/v1/organizations/{org_id}/service-members': ({ serviceMembers }) =>
    serviceMembers.create({ name: 'deploy', role: 'member' }),
  'POST /platform/v1/organizations/{org_id}/service-members/{user_id}/api-keys': ({ serviceMembers }) =>
    serviceMembers.createKey('{user_id}', { name: 'ci' }),
  'POST /platform/v1/organizations/{org_id}/invitations': ({ invitations }) =>
    invitations.create({ email: 'a@example.com', role: 'member' }),
  'GET /platform/v1/organizations/{org_id}/invitations': ({ invitations }) => invitations.list().page(),
  'DELETE /platform/v1/organizations/{org_id}/invitations/{invitation_id}': ({ invitations }) =>
    invitations.delete('{invitation_id}'),
  'GET /platform/v1/organizations/{org_id}/events': ({ events }) => events.list().page(),
  'GET /platform/v1/organizations/{org_id}/events/stream': ({ events }) =>
    // It is refused, because the answer here is no stream.
    expect(events.stream()[Symbol.asyncIterator]().next()).rejects.toThrow(),
  'GET /platform/v1/organizations/{org_id}/events/{event_id}': ({ events }) => events.get('{event_id}'),
  'GET /platform/v1/organizations/{org_id}/event-types': ({ eventTypes }) => eventTypes.list().page(),
  'GET /platform/v1/organizations/{org_id}/audit-log': ({ audit }) => audit.list().page(),
  'POST /platform/v1/organizations/{org_id}/databases': ({ databases }) => databases.create({ name: 'orders' }),
  'GET /platform/v1/organizations/{org_id}/databases': ({ databases }) => databases.list().page(),
  'GET /platform/v1/organizations/{org_id}/databases/{database_id}': ({ databases }) => databases.get('{database_id}'),
  'GET /platform/v1/organizations/{org_id}/databases/{database_id}/stats': ({ databases }) =>
    databases.stats('{database_id}'),
  'GET /platform/v1/organizations/{org_id}/databases/{database_id}/usage': ({ databases }) =>
    databases.usage('{database_id}'),
  'DELETE /platform/v1/organizations/{org_id}/databases/{database_id}': ({ databases }) =>
    databases.delete('{database_id}'),
  'POST /platform/v1/organizations/{org_id}/databases/{database_id}/restore': ({ databases }) =>
    databases.restore('{database_id}', { name: 'then', to: '2026-01-31T12:00:00Z' }),
  'POST /platform/v1/organizations/{org_id}/databases/{database_id}/backups': ({ backups }) =>
    backups.create('{database_id}'),
  'GET /platform/v1/organizations/{org_id}/databases/{database_id}/backup-schedule': ({ backups }) =>
    backups.schedule('{database_id}'),
  'PUT /platform/v1/organizations/{org_id}/databases/{database_id}/backup-schedule': ({ backups }) =>
    backups.setSchedule('{database_id}', { every_hours: 24, keep: 7 }),
  'GET /platform/v1/organizations/{org_id}/backups': ({ backups }) => backups.list().page(),
  'GET /platform/v1/organizations/{org_id}/backups/{backup_id}': ({ backups }) => backups.get('{backup_id}'),
  'POST /platform/v1/organizations/{org_id}/backups/{backup_id}/cancel': ({ backups }) => backups.cancel('{backup_id}'),
  'DELETE /platform/v1/organizations/{org_id}/backups/{backup_id}': ({ backups }) => backups.delete('{backup_id}'),
  'POST /platform/v1/organizations/{org_id}/backups/{backup_id}/restore': ({ restores }) =>
    restores.create('{backup_id}', { name: 'copy' }),
  'GET /platform/v1/organizations/{org_id}/restores': ({ restores }) => restores.list().page(),
  'GET /platform/v1/organizations/{org_id}/restores/{restore_id}': ({ restores }) => restores.get('{restore_id}'),
  'GET /platform/v1/organizations/{org_id}/invoices': ({ invoices }) => invoices.list().page(),
  'GET /platform/v1/organizations/{org_id}/invoices/{invoice_id}': ({ invoices }) => invoices.get('{invoice_id}'),
  'POST /operator/v1/invoices/{invoice_id}/pay': (_, { invoices }) => invoices.pay('{invoice_id}'),
  'POST /operator/v1/organizations': (_, { organizations }) => organizations.create({ name: 'Acme' }),
  'GET /operator/v1/organizations': (_, { organizations }) => organizations.list().page(),
  'GET /operator/v1/organizations/{org_id}': (_, { organizations }) => organizations.get('{org_id}'),
  'GET /operator/v1/overview': (_, operator) => operator.overview(),
  'GET /operator/v1/organizations/{org_id}/quotas': (_, { organizations }) => organizations.quotas('{org_id}'),
  'PATCH /operator/v1/organizations/{org_id}/quotas': (_, { organizations }) =>
    organizations.setQuotas('{org_id}', { keys: 5 }),
  'POST /operator/v1/organizations/{org_id}/open': (_, { organizations }) => organizations.open('{org_id}'),
  'POST /operator/v1/users': (_, { users }) => users.create({ email: 'a@example.com' }),
  'GET /operator/v1/users': (_, { users }) => users.list().page(),
  'GET /operator/v1/users/{user_id}': (_, { users }) => users.get('{user_id}'),
  'POST /operator/v1/users/{user_id}/verify': (_, { users }) => users.verify('{user_id}'),
  'DELETE /operator/v1/users/{user_id}': (_, { users }) => users.delete('{user_id}'),
  'GET /operator/v1/members': (_, { members }) => members.list().page(),
  'PUT /operator/v1/members/{org_id}/{user_id}': (_, { members }) =>
    members.set('{org_id}', '{user_id}', { role: 'member' }),
  'DELETE /operator/v1/members/{org_id}/{user_id}': (_, { members }) => members.remove('{org_id}', '{user_id}'),
  'POST /operator/v1/tokens': (_, { tokens }) => tokens.create({}),
  'GET /operator/v1/tokens': (_, { tokens }) => tokens.list().page(),
  'DELETE /operator/v1/tokens/{token_id}': (_, { tokens }) => tokens.revoke('{token_id}'),
  'POST /platform/v1/organizations/{org_id}/deletion': ({ organizations }) =>
    organizations.delete('{org_id}', { confirm: 'Acme' }),
  'POST /operator/v1/organizations/{org_id}/deletion': (_, { organizations }) =>
    organizations.delete('{org_id}', { confirm: 'Acme' }),
  'POST /operator/v1/users/{user_id}/deletion': (_, { users }) =>
    users.erase('{user_id}', { confirm: 'a@example.com' }),
  'GET /operator/v1/deletions': (_, { deletions }) => deletions.list().page(),
  'GET /operator/v1/deletions/{deletion_id}': (_, { deletions }) => deletions.get('{deletion_id}'),
  'POST /operator/v1/introspect': (_, operator) => operator.introspect({ token: 't' }),
  'POST /operator/v1/introspect/batch': (_, operator) => operator.introspectBatch({ tokens: ['t'] }),
}

test.each(Object.entries(calls))('%s', async (operation, call) => {
  let sent = ''
  const fetch: typeof globalThis.fetch = async (input, init) => {
    sent = `${init?.method} ${decodeURIComponent((input as URL).pathname)}`
    return Response.json([])
  }
  const options = { url: 'https://keyhook.example.com', token: 't', organization: '{org_id}', fetch }
  await call(createClient(options), createOperatorClient(options))
  expect(sent).toBe(operation)
})
