import { describe, expect, test } from 'vitest'
import { findAccess } from '../../src/access/access.ts'
import type { Role } from '../../src/access/roles.ts'
import { enableOptionalTypes } from '../../src/delivery/event-types.ts'
import type { OrgId, UserId } from '../../src/lib/ids.ts'
import { removeUser } from '../../src/organizations/rules.ts'
import { checkMayLogIn } from '../../src/organizations/users.ts'
import { call } from '../kit/client.ts'
import { testOperator } from '../kit/installation.ts'
import { ownedApi } from '../kit/owned-api.ts'
import { createBrowser, linkFor, tokenOf } from '../login/browser.ts'

/*
 * A service member is a user that only API keys act as. See entry 175.
 */

const api = ownedApi()
type Member = { user_id: UserId; email: string | null; name: string; service: boolean; verified: boolean; role: Role }
type Key = { id: string; api_key: string; key_prefix: string }
type Problem = { code: string; detail: string }
type Entry = {
  action: string
  target_id: string
  actor: { kind: string; user_id: string | null }
  details: Record<string, unknown>
}

const base = (orgId: OrgId) => `${api.url}/platform/v1/organizations/${orgId}`
const template = '/platform/v1/organizations/{org_id}/'

/** A new organization with its owner, an admin, a service member and a key of it. */
async function served(role: 'admin' | 'member' = 'member') {
  const orgId = await api.organization()
  const owner = await api.person([{ orgId, role: 'owner' }])
  const admin = await api.person([{ orgId, role: 'admin' }])
  const made = await create(orgId, owner.token, { name: 'deploy', role })
  expect(made.status, made.text).toBe(201)
  const bot = made.body
  const key = await keyFor(orgId, owner.token, bot.user_id)
  expect(key.status, key.text).toBe(201)
  return { orgId, owner, admin, bot, key: key.body }
}

const create = (orgId: OrgId, token: string, body: object) =>
  api.documented.call<Member & Problem>('POST', `${template}service-members`, `${base(orgId)}/service-members`, {
    token,
    body,
  })
const keyFor = (orgId: OrgId, token: string, userId: string, body: object = {}) =>
  api.documented.call<Key & Problem>(
    'POST',
    `${template}service-members/{user_id}/api-keys`,
    `${base(orgId)}/service-members/${userId}/api-keys`,
    { token, body: { name: 'ci', ...body } },
  )
const publishedKeys = (orgId: OrgId) => `${api.url}/api/v1/organizations/${orgId}/api-keys`
const statusOf = async (orgId: OrgId, token: string) => (await call(publishedKeys(orgId), { token })).status
const auditOf = async (orgId: OrgId, token: string) => (await call<Entry[]>(`${base(orgId)}/audit-log`, { token })).body
const remove = (orgId: OrgId, token: string, userId: string) =>
  call<Problem>(`${base(orgId)}/members/${userId}`, { token, method: 'DELETE' })
const setRole = (orgId: OrgId, token: string, userId: string, role: Role) =>
  call<Member & Problem>(`${base(orgId)}/members/${userId}`, { token, method: 'PUT', body: { role } })

describe('a service member', () => {
  test('is listed with a name and without an address, and is no person', async () => {
    const { orgId, admin, bot } = await served()
    const { body } = await api.documented.call<Member[]>('GET', `${template}members`, `${base(orgId)}/members`, {
      token: admin.token,
    })
    const expected = { email: null, name: 'deploy', service: true, verified: false, role: 'member' }
    expect(body.find(({ user_id }) => user_id === bot.user_id)).toMatchObject(expected)
    expect(bot).toMatchObject(expected)
    expect(body.filter(({ service }) => service)).toHaveLength(1)
    const operatorToken = await api.operatorToken()
    const path = '/operator/v1/users/{user_id}'
    const user = await api.documented.call('GET', path, `${api.url}/operator/v1/users/${bot.user_id}`, {
      token: operatorToken,
    })
    expect(user.body).toMatchObject({ email: null, name: 'deploy', subject: null, service: true, verified: false })
  })

  test('and its keys are made by owners with a login token, and by nobody else', async () => {
    const { orgId, owner, admin, bot, key } = await served('admin')
    const member = await api.person([{ orgId, role: 'member' }])
    const ofOwner = await call<Key>(publishedKeys(orgId), { token: owner.token, body: { name: 'mine' } })
    const stranger = await api.person([{ orgId: await api.organization(), role: 'owner' }])
    for (const [token, status, code] of [
      [admin.token, 403, 'auth.permission_missing'],
      [member.token, 403, 'auth.permission_missing'],
      [key.api_key, 403, 'auth.permission_missing'],
      [ofOwner.body.api_key, 403, 'auth.login_required'],
      [stranger.token, 404, 'not_found'],
    ] as const) {
      const members = `${base(orgId)}/service-members`
      const made = await call<Problem>(members, { token, body: { name: 'x', role: 'member' } })
      expect(made).toMatchObject({ status, body: { code } })
      const ofKey = await call<Problem>(`${members}/${bot.user_id}/api-keys`, { token, body: { name: 'x' } })
      expect(ofKey).toMatchObject({ status, body: { code } })
    }
    // The person of a key is never chosen.
    for (const { userId } of [owner, admin, member, stranger]) {
      expect((await keyFor(orgId, owner.token, userId)).status).toBe(404)
    }
    const elsewhere = await served()
    expect((await keyFor(orgId, owner.token, elsewhere.bot.user_id)).status).toBe(404)
  })

  test('is never an owner, so that a person always is', async () => {
    const { orgId, owner, bot } = await served('admin')
    expect((await create(orgId, owner.token, { name: 'x', role: 'owner' })).status).toBe(422)
    const refused = { status: 409, body: { code: 'user.service_member' } }
    expect(await setRole(orgId, owner.token, bot.user_id, 'owner')).toMatchObject(refused)
    const byOperator = await call(`${api.url}/operator/v1/members/${orgId}/${bot.user_id}`, {
      token: await api.operatorToken(),
      method: 'PUT',
      body: { role: 'owner' },
    })
    expect(byOperator).toMatchObject(refused)
    expect(await remove(orgId, owner.token, owner.userId)).toMatchObject({
      status: 409,
      body: { code: 'member.last_owner' },
    })
  })

  test('belongs to its organization only', async () => {
    const { bot } = await served()
    const other = await api.organization()
    const added = await call(`${api.url}/operator/v1/members/${other}/${bot.user_id}`, {
      token: await api.operatorToken(),
      method: 'PUT',
      body: { role: 'member' },
    })
    expect(added).toMatchObject({ status: 409, body: { code: 'user.service_member' } })
  })

  test('is one of at most 1,000 of an organization', async () => {
    const { orgId, owner } = await served()
    await api.db`
      with u as (
        insert into keyhook.users (id, name, is_service, invited_to)
        select ${orgId} || n, 'many', true, ${orgId} from generate_series(1, 999) n returning id
      )
      insert into keyhook.memberships (org_id, user_id, role) select ${orgId}, id, 'member' from u`
    const refused = await create(orgId, owner.token, { name: 'x', role: 'member' })
    expect(refused).toMatchObject({ status: 422, body: { code: 'limit.reached' } })
  })
})

describe('nobody logs in as a service member', () => {
  test('with a login token that names it, from whatever issuer', async () => {
    const { orgId, bot, key } = await served()
    const token = await api.issuer.issue({ subject: bot.user_id, ttlSeconds: 60 })
    expect((await call(`${api.url}/api/v1/organizations`, { token })).status).toBe(401)
    expect(await statusOf(orgId, token)).toBe(401)
    const names = [
      { userId: bot.user_id },
      { userId: bot.user_id, sessionId: null },
      { subject: bot.user_id, verifiedEmail: null },
      { subject: bot.user_id, verifiedEmail: '' },
      { subject: 'deploy', verifiedEmail: 'deploy' },
      { subject: '', verifiedEmail: 'null' },
    ]
    const found = await findAccess(
      api.db,
      names.map((one) => ({ kind: 'login', names: one, orgId })),
    )
    expect(found).toEqual(names.map(() => null))
    expect(await statusOf(orgId, key.api_key)).toBe(200)
  })

  test('with a link to the console, also one that an older version has made', async () => {
    const { bot } = await served()
    await expect(checkMayLogIn(api.db, bot.user_id)).rejects.toMatchObject({ code: 'user.service_member' })
    const browser = createBrowser(api.url)
    await browser.send('POST', '/console/session', { body: { link: await linkFor(api, bot.user_id) } })
    expect((await tokenOf(browser)).status).toBe(401)
    const authorization = { challenge: 'A'.repeat(43), state: 'A'.repeat(22), port: 50_000 }
    expect((await browser.send('POST', '/console/authorizations', { body: authorization })).status).toBe(401)
    const [session] = await api.db<{ id: string }[]>`
      select id from keyhook.console_sessions where user_id = ${bot.user_id}`
    const token = await api.issuer.issue({ subject: bot.user_id, sessionId: session!.id, ttlSeconds: 60 })
    expect((await call(`${api.url}/api/v1/organizations`, { token })).status).toBe(401)
  })

  test('with an address or a subject: the operator cannot confirm one, and the database takes none', async () => {
    const { bot } = await served()
    const verified = await call(`${api.url}/operator/v1/users/${bot.user_id}/verify`, {
      token: await api.operatorToken(),
      method: 'POST',
    })
    expect(verified).toMatchObject({ status: 409, body: { code: 'user.service_member' } })
    for (const change of [
      "email = 'a@example.com'",
      "subject = 's'",
      "verified_by = 'operator'",
      'is_service = false',
    ]) {
      const statement = `update keyhook.users set ${change} where id = '${bot.user_id}'`
      await expect(api.db.unsafe(statement), change).rejects.toThrow(/violates check constraint/)
    }
  })
})

describe('a key of a service member', () => {
  test('acts as it with its role of the moment, and keys that it creates do too', async () => {
    const { orgId, owner, bot, key } = await served()
    const webhook = { url: 'https://example.com/', event_types: ['invoice.paid'] }
    const createWebhook = () =>
      call<{ created_by: string }>(`${api.url}/api/v1/organizations/${orgId}/webhooks`, {
        token: key.api_key,
        body: webhook,
      })
    expect((await createWebhook()).status).toBe(403)
    expect((await setRole(orgId, owner.token, bot.user_id, 'admin')).status).toBe(200)
    expect((await createWebhook()).status).toBe(201)
    const child = await call<Key>(publishedKeys(orgId), { token: key.api_key, body: { name: 'child' } })
    const listed = await call<Record<string, unknown>[]>(publishedKeys(orgId), { token: child.body.api_key })
    const ofOwner = await call<Key>(publishedKeys(orgId), { token: owner.token, body: { name: 'of a person' } })
    const all = await call<Record<string, unknown>[]>(publishedKeys(orgId), { token: owner.token })
    expect(listed.body.map(({ id, created_by, created_by_key }) => [id, created_by, created_by_key])).toEqual([
      [child.body.id, bot.user_id, key.id],
      [key.id, bot.user_id, null],
    ])
    // The shape under /api/v1 is that of every key.
    const ofPerson = all.body.find(({ id }) => id === ofOwner.body.id)!
    expect(Object.keys(listed.body[0]!)).toEqual(Object.keys(ofPerson))
    const introspected = await call(`${api.url}/operator/v1/introspect`, {
      token: await api.operatorToken(),
      body: { token: key.api_key },
    })
    expect(introspected.body).toMatchObject({ active: true, sub: bot.user_id, role: 'admin', key_id: key.id })
  })

  test('is rotated and allowed more by owners, and not by admins or by keys', async () => {
    const { orgId, owner, admin, bot } = await served()
    const { body: key } = await keyFor(orgId, owner.token, bot.user_id, { permissions: ['webhooks:read'] })
    const ofOwner = await call<Key>(publishedKeys(orgId), { token: owner.token, body: { name: 'mine' } })
    const rotate = (token: string, id = key.id) =>
      call<Key & Problem>(`${base(orgId)}/api-keys/${id}/rotate`, { token, body: { overlap_seconds: 0 } })
    const change = (token: string, permissions: string[] | null) =>
      call<Problem>(`${base(orgId)}/api-keys/${key.id}`, { token, method: 'PATCH', body: { permissions } })
    for (const token of [admin.token, ofOwner.body.api_key]) {
      expect((await rotate(token)).status).toBe(404)
      expect((await change(token, ['webhooks:read', 'events:read'])).status).toBe(403)
    }
    // What is of a person stays of that person.
    const ofAdmin = await call<Key>(publishedKeys(orgId), { token: admin.token, body: { name: 'of the admin' } })
    expect((await rotate(owner.token, ofAdmin.body.id)).status).toBe(404)
    expect((await change(admin.token, ['webhooks:read'])).status).toBe(200)
    expect((await change(owner.token, ['webhooks:read', 'keys:read'])).status).toBe(200)
    const next = await rotate(owner.token)
    expect(next.status).toBe(201)
    expect(await statusOf(orgId, key.api_key)).toBe(401)
    const listed = await call<{ id: string; created_by: string; permissions: string[] }[]>(`${base(orgId)}/api-keys`, {
      token: owner.token,
    })
    expect(listed.body.find(({ id }) => id === next.body.id)).toMatchObject({
      created_by: bot.user_id,
      permissions: ['webhooks:read', 'keys:read'],
    })
    expect(await statusOf(orgId, next.body.api_key)).toBe(200)
  })

  test('ends for good with its service member, which any admin may remove and nobody can bring back', async () => {
    const { orgId, owner, admin, bot, key } = await served()
    expect(await statusOf(orgId, key.api_key)).toBe(200)
    expect((await remove(orgId, admin.token, bot.user_id)).status).toBe(204)
    expect(await statusOf(orgId, key.api_key)).toBe(401)
    expect((await keyFor(orgId, owner.token, bot.user_id)).status).toBe(404)
    const back = await call(`${api.url}/operator/v1/members/${orgId}/${bot.user_id}`, {
      token: await api.operatorToken(),
      method: 'PUT',
      body: { role: 'member' },
    })
    expect(back.status).toBe(404)
    const revoked = await call<{ id: string; created_by: string; status: string }[]>(
      `${publishedKeys(orgId)}?status=all`,
      { token: owner.token },
    )
    expect(revoked.body).toMatchObject([{ id: key.id, created_by: bot.user_id, status: 'revoked' }])
    const byOperator = await served()
    const path = `${api.url}/operator/v1/members/${byOperator.orgId}/${byOperator.bot.user_id}`
    expect((await call(path, { token: await api.operatorToken(), method: 'DELETE' })).status).toBe(204)
    expect(await statusOf(byOperator.orgId, byOperator.key.api_key)).toBe(401)
  })

  test.each<[string, (userId: UserId, token: string) => Promise<unknown>]>([
    ['removed', (userId, token) => call(`${api.url}/operator/v1/users/${userId}`, { token, method: 'DELETE' })],
    ['removed by a command', (userId) => removeUser(api.db, testOperator, { userId })],
    [
      'deleted',
      (userId, token) =>
        call(`${api.url}/operator/v1/users/${userId}/deletion`, { token, body: { confirm: 'deploy' } }),
    ],
  ])('is revoked, with an audit entry and key.revoked, when its user is %s', async (_, end) => {
    await enableOptionalTypes(api.db, ['key.revoked'])
    const { orgId, owner, bot, key } = await served()
    await end(bot.user_id, await api.operatorToken())
    const listed = await call<object[]>(`${publishedKeys(orgId)}?status=revoked`, { token: owner.token })
    expect(listed.body).toMatchObject([{ id: key.id }])
    const [entry] = (await auditOf(orgId, owner.token)).filter(({ action }) => action === 'key.revoked')
    expect(entry).toMatchObject({ target_id: key.id, details: { member_removed: bot.user_id } })
    const events = await api.db<{ body: string }[]>`
      select body from keyhook.events where org_id = ${orgId} and type = 'key.revoked'`
    expect(events.map(({ body }) => JSON.parse(body).data)).toMatchObject([
      { api_key_id: key.id, reason: 'member_removed' },
    ])
  })

  test('is in the audit log with the person who made it and the service member that it acts as', async () => {
    const { orgId, owner, admin, bot, key } = await served()
    await call(publishedKeys(orgId), { token: key.api_key, body: { name: 'child' } })
    await remove(orgId, admin.token, bot.user_id)
    const entries = (await auditOf(orgId, owner.token)).map(({ action, target_id, actor, details }) => {
      return { action, target_id, by: actor.user_id, kind: actor.kind, details }
    })
    const [made, ofKey, ofChild, removed, ...revoked] = entries.toReversed().slice(-6)
    expect(made).toMatchObject({
      action: 'service_member.created',
      target_id: bot.user_id,
      by: owner.userId,
      details: { name: 'deploy', role: 'member' },
    })
    expect(ofKey).toMatchObject({
      action: 'key.created',
      target_id: key.id,
      by: owner.userId,
      kind: 'login',
      details: { name: 'ci', acts_as: bot.user_id },
    })
    expect(ofChild).toMatchObject({ action: 'key.created', by: bot.user_id, kind: 'key' })
    expect(ofChild!.details).not.toHaveProperty('acts_as')
    expect(removed).toMatchObject({ action: 'member.removed', target_id: bot.user_id, by: admin.userId })
    expect(revoked).toMatchObject([
      { action: 'key.revoked', by: admin.userId, details: { member_removed: bot.user_id } },
      { action: 'key.revoked', by: admin.userId, details: { member_removed: bot.user_id } },
    ])
  })
})
