import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { operator } from '../../src/access/audit.ts'
import { newId, type UserId } from '../../src/lib/ids.ts'
import { insertSession } from '../../src/login/console-sessions.ts'
import { pinSubject } from '../../src/login/openid.ts'
import { createUser, removeUser } from '../../src/organizations/rules.ts'
import { wasRemoved } from '../../src/organizations/users.ts'
import { call } from '../kit/client.ts'
import { ownedApi } from '../kit/owned-api.ts'
import { createBrowser, signIn } from '../login/browser.ts'
import { createAuthenticator } from '../login/support/authenticator.ts'
import { add, atLocalhost } from '../login/support/passkeys.ts'
import { type Deletion, eraseAll, linesAbout } from './support/erasing.ts'

const api = ownedApi()

const remove = async (userId: string, confirm: string) =>
  call<Deletion>(`${api.url}/operator/v1/users/${userId}/deletion`, {
    token: await api.operatorToken(),
    body: { confirm },
  })
const platform = () => `${api.url}/platform/v1/organizations/${api.orgId}`

async function grace(email = 'Grace.Hopper@example.com'): Promise<{ userId: UserId; token: string; apiKey: string }> {
  const operatorToken = await api.operatorToken()
  const body = { email, name: 'Grace Hopper', subject: `sub-${email}` }
  const headers = { 'idempotency-key': email }
  const made = await call<{ id: UserId }>(`${api.url}/operator/v1/users`, { token: operatorToken, body, headers })
  const userId = made.body.id
  await call(`${platform()}/invitations`, { token: api.owner.token, body: { email, role: 'admin' } })
  await call(`${api.url}/operator/v1/members/${api.orgId}/${userId}`, {
    token: operatorToken,
    method: 'PUT',
    body: { role: 'admin' },
  })
  const token = await api.issuer.issue({ subject: userId, ttlSeconds: 3_600 })
  const key = await call<{ api_key: string }>(`${api.url}/api/v1/organizations/${api.orgId}/api-keys`, {
    token,
    body: { name: 'hers' },
  })
  await api.db.begin((tx) =>
    insertSession(tx, { hash: randomBytes(32), userId, way: 'link', address: '203.0.113.7', userAgent: null }),
  )
  return { userId, token, apiKey: key.body.api_key }
}

test('a deleted user has no access from the answer on, and only the bare id stays', async () => {
  const email = 'Grace.Hopper@example.com'
  const { userId, token, apiKey } = await grace(email)
  await api.db`
    insert into keyhook.mails (org_id, address, kind, send_by)
    values (${api.orgId}, ${email.toLowerCase()}, 'invitation', now() + interval '1 day')`
  const texts = ['race.', 'Grace Hopper', 'sub-Grace']
  expect((await linesAbout(api.db, texts)).length).toBeGreaterThan(3)
  expect((await remove(userId, 'grace.hopper@example.com')).status).toBe(422)
  const answer = await remove(userId, email)
  expect([answer.status, answer.body.kind, answer.body.target_id]).toEqual([202, 'user', userId])
  for (const credential of [token, apiKey]) {
    expect((await call(`${api.url}/api/v1/organizations`, { token: credential })).status).toBe(401)
  }
  await eraseAll(api.db)
  expect(await linesAbout(api.db, texts)).toEqual([])
  const left = await linesAbout(api.db, [userId])
  expect(left.filter((line) => line.includes('127.0.0.1') && !line.includes(',operator,'))).toEqual([])
  expect([...new Set(left.map((line) => line.split(':')[0]))].sort()).toEqual(['api_keys', 'audit_entries', 'users'])
  const { body } = await call<{ actor: object; action: string }[]>(`${platform()}/audit-log?actor=${userId}`, {
    token: api.owner.token,
  })
  expect(body[0]!.actor).toMatchObject({ user_id: userId, address: null })
  // A second call is the same deletion; there is nothing left to compare a confirmation with.
  expect((await remove(userId, 'x')).body.id).toBe(answer.body.id)
  expect((await remove(newId('usr'), 'x')).status).toBe(404)
})

test('audit logs lose the subject of the OpenID issuer and the names of passkeys', async () => {
  const { userId } = await api.person([{ orgId: api.orgId, role: 'member' }])
  const { email } = await api.db<{ email: string }[]>`select email from keyhook.users where id = ${userId}`.one()
  const login = { kind: 'login', userId, tokenId: null, address: '203.0.113.7' } as const
  expect(await pinSubject(api.db, userId, 'sub-of-the-issuer', login)).toBe(true)
  const browser = await signIn(api, userId, createBrowser(atLocalhost(api.url)))
  const { id } = (await add(browser, createAuthenticator(), 'Phone of Katherine')).body
  expect((await browser.send('DELETE', `/console/passkeys/${id}`)).status).toBe(204)
  const texts = ['sub-of-the-issuer', 'Katherine']
  const audited = (await linesAbout(api.db, texts)).filter((line) => line.startsWith('audit_entries'))
  expect(audited).toHaveLength(3)
  expect((await remove(userId, email)).status).toBe(202)
  await eraseAll(api.db)
  expect(await linesAbout(api.db, texts)).toEqual([])
})

test('invitations and mails for an address that the user never confirmed stay, because they are for its owner', async () => {
  const email = 'impostor@example.com'
  const userId = newId('usr')
  const orgId = await api.organization('Elsewhere')
  await api.db`insert into keyhook.users (id, email, invited_to) values (${userId}, ${email}, ${orgId})`
  await call(`${platform()}/invitations`, { token: api.owner.token, body: { email, role: 'admin' } })
  await api.db`
    insert into keyhook.mails (org_id, user_id, address, kind, send_by) values
      (${api.orgId}, null, ${email}, 'invitation', now() + interval '1 day'),
      (null, null, ${email}, 'sign_in', now() + interval '1 day'),
      (null, ${userId}, ${email}, 'confirmation', now() + interval '1 day')`
  await remove(userId, email)
  await eraseAll(api.db)
  expect(await api.db`select from keyhook.users where id = ${userId} and email is not null`).toHaveLength(0)
  expect(await api.db`select from keyhook.invitations where email = ${email}`).toHaveLength(1)
  const mails = await api.db<{ kind: string }[]>`select kind from keyhook.mails where address = ${email} order by kind`
  expect(mails.map(({ kind }) => kind)).toEqual(['invitation', 'sign_in'])
})

test('a login of the OpenID issuer does not make a deleted user again, and the operator can', async () => {
  const { userId } = await grace('ada@example.com')
  const person = { subject: 'sub-ada@example.com', email: 'ADA@example.com' }
  expect(await wasRemoved(api.db, person)).toBe(false)
  await remove(userId, 'ada@example.com')
  expect(await wasRemoved(api.db, person)).toBe(true)
  await eraseAll(api.db)
  expect(await linesAbout(api.db, ['ada@example.com'])).toEqual([])
  expect(await wasRemoved(api.db, person)).toBe(true)
  expect(await wasRemoved(api.db, { ...person, email: 'else@example.com' })).toBe(true)
  expect(await wasRemoved(api.db, { subject: 'else', email: 'ada@example.com' })).toBe(true)
  expect(await wasRemoved(api.db, { subject: 'else', email: 'else@example.com' })).toBe(false)
  const again = await api.db.begin((tx) => createUser(tx, { email: person.email, name: null, subject: person.subject }))
  expect(again.id).not.toBe(userId)
})

test('a user who was removed before can be deleted, and so can a service member', async () => {
  const { userId } = await grace('left@example.com')
  await removeUser(api.db, operator, { userId })
  expect((await linesAbout(api.db, ['left@example.com'])).length).toBeGreaterThan(0)
  expect((await remove(userId, 'left@example.com')).status).toBe(202)
  const service = await call<{ user_id: string }>(`${platform()}/service-members`, {
    token: api.owner.token,
    body: { name: 'deploy-robot', role: 'member' },
  })
  expect((await remove(service.body.user_id, 'deploy-robot')).status).toBe(202)
  await eraseAll(api.db)
  expect(await linesAbout(api.db, ['left@example.com', 'deploy-robot'])).toEqual([])
})
