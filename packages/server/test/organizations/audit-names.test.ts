import { expect, test } from 'vitest'
import type { OrgId } from '../../src/lib/ids.ts'
import { removeMember } from '../../src/organizations/rules.ts'
import { hookBody } from '../http/support/changes.ts'
import { call } from '../kit/client.ts'
import { testOperator } from '../kit/installation.ts'
import { ownedApi } from '../kit/owned-api.ts'

type Entry = { action: string; actor: { name: string | null; key_name: string | null }; target_name: string | null }
type Made = { id: string; key_prefix: string; api_key: string }

const api = ownedApi()

const emailOf = async ({ userId }: { userId: string }): Promise<string> =>
  (await api.db<{ email: string }[]>`select email from keyhook.users where id = ${userId}`.one()).email

const below = (area: 'api' | 'platform') => `${api.url}/${area}/v1/organizations/${api.orgId}`

const newest = async (limit: number): Promise<Entry[]> =>
  (await call<Entry[]>(`${below('platform')}/audit-log?limit=${limit}`, { token: api.owner.token })).body

test('entries name users, keys and targets, also those that are gone', async () => {
  const { token } = api.owner
  const key = (await call<Made>(`${below('api')}/api-keys`, { token, body: { name: 'deploy' } })).body
  const hook = (await call<Made>(`${below('api')}/webhooks`, { token: key.api_key, body: hookBody })).body
  await call(`${below('api')}/webhooks/${hook.id}`, { token, method: 'DELETE' })
  await call(`${below('api')}/api-keys/${key.id}`, { token, method: 'DELETE' })
  const invited = { email: 'new@example.com', role: 'member' }
  const invitation = (await call<Made>(`${below('platform')}/invitations`, { token, body: invited })).body
  await call(`${below('platform')}/invitations/${invitation.id}`, { token, method: 'DELETE' })
  const leaver = await api.person([{ orgId: api.orgId, role: 'member' }])
  await removeMember(api.db, testOperator, { orgId: api.orgId, userId: leaver.userId })

  const keyName = `deploy (${key.key_prefix}…)`
  const ownerEmail = await emailOf(api.owner)
  const leaverEmail = await emailOf(leaver)
  const owner = { name: ownerEmail, key_name: null }
  const operator = { name: null, key_name: null }
  expect((await newest(8)).reverse()).toMatchObject([
    { action: 'key.created', actor: owner, target_name: keyName },
    { action: 'webhook.created', actor: { name: ownerEmail, key_name: keyName }, target_name: hookBody.url },
    { action: 'webhook.deleted', actor: owner, target_name: hookBody.url },
    { action: 'key.revoked', actor: owner, target_name: keyName },
    { action: 'member.invited', actor: owner, target_name: invited.email },
    { action: 'invitation.withdrawn', actor: owner, target_name: invited.email },
    { action: 'member.added', actor: operator, target_name: leaverEmail },
    { action: 'member.removed', actor: operator, target_name: leaverEmail },
  ])
})

test('an address that nobody has confirmed is named as such', async () => {
  const email = await emailOf(api.owner)
  await call(`${below('api')}/api-keys`, { token: api.owner.token, body: { name: 'one' } })
  expect(await newest(1)).toMatchObject([{ actor: { name: email } }])
  await api.db`update keyhook.users set verified_by = null, invited_to = ${api.orgId} where id = ${api.owner.userId}`
  expect(await newest(1)).toMatchObject([{ actor: { name: `${email} (unverified)` } }])
})

test('an event is named by its type, and an id that its reporter chose names nothing of another organization', async () => {
  const token = await api.operatorToken()
  const foreign: OrgId = await api.organization()
  const stranger = await api.person([{ orgId: foreign, role: 'owner' }])
  const event = { id: stranger.userId, organization_id: api.orgId, type: 'backup.failed', data: {} }
  const reported = await call(`${api.url}/operator/v1/events`, { token, body: event })
  expect(reported.status).toBe(202)
  expect(await newest(1)).toMatchObject([{ action: 'event.reported', target_name: 'backup.failed' }])
})
