import { expect, test } from 'vitest'
import { newId } from '../../src/lib/ids.ts'
import { call, type Reply } from '../kit/client.ts'
import { ownedApi } from '../kit/owned-api.ts'

/*
 * Organizations, users, members and operator tokens over HTTP.
 */

const api = ownedApi()

let token: string | undefined
const send = async <T>(method: string, template: string, path = template, body?: object): Promise<Reply<T>> => {
  token ??= await api.operatorToken()
  const base = '/operator/v1/'
  return api.documented.call<T>(method, base + template, api.url + base + path, { token, ...(body && { body }) })
}

type Record = { id: string; [field: string]: unknown }
const jtiOf = (jwt: string): string => JSON.parse(Buffer.from(jwt.split('.')[1]!, 'base64url').toString()).jti

test('an organization is created, read and listed newest first, by pages', async () => {
  const made = await send<Record>('POST', 'organizations', undefined, { name: 'Globex' })
  expect([made.status, made.headers.get('location')]).toEqual([201, `/operator/v1/organizations/${made.body.id}`])
  expect((await send('GET', 'organizations/{org_id}', `organizations/${made.body.id}`)).body).toEqual(made.body)
  const second = await send<Record>('POST', 'organizations', undefined, { name: 'Globex' })
  const listed = await send<Record[]>('GET', 'organizations')
  expect(listed.body.slice(0, 2)).toEqual([second.body, made.body])
  const page = await send<Record[]>('GET', 'organizations', 'organizations?limit=1')
  expect(page.body).toEqual([second.body])
  expect(page.headers.get('link')).toContain('rel="next"')
  expect((await send('POST', 'organizations', undefined, { name: ' ' })).status).toBe(422)
})

test('a user is created, found by the address, removed, and removed again with the same answer', async () => {
  const body = { email: 'Hank@example.com', name: 'Hank', subject: 'auth0|hank' }
  const made = await send<Record>('POST', 'users', undefined, body)
  expect(made.body).toEqual({
    ...body,
    verified: true,
    service: false,
    id: expect.stringMatching(/^usr_/),
    created_at: expect.any(String),
  })
  const user = (id: string) => send<Record>('GET', 'users/{user_id}', `users/${id}`)
  expect((await user(made.body.id)).body).toEqual(made.body)
  expect((await send<Record[]>('GET', 'users', 'users?email=hank@EXAMPLE.com')).body).toEqual([made.body])
  for (const [taken, code] of [
    [{ email: 'hank@example.com' }, 'user.email_taken'],
    [{ email: 'other@example.com', subject: body.subject }, 'user.subject_taken'],
  ] as const)
    expect(await send('POST', 'users', undefined, taken)).toMatchObject({ status: 409, body: { code } })
  expect((await send('POST', 'users', undefined, { email: 'nobody' })).status).toBe(422)
  const remove = (id: string) => send('DELETE', 'users/{user_id}', `users/${id}`)
  expect([(await remove(made.body.id)).status, (await remove(made.body.id)).status]).toEqual([204, 204])
  expect((await user(made.body.id)).status).toBe(404)
  expect((await remove(newId('usr'))).status).toBe(404)
})

test('a member is set, listed, and removed, and the audit log names the operator token', async () => {
  const person = await api.person()
  const other = await api.organization('Other')
  const template = 'members/{org_id}/{user_id}'
  const at = (orgId: string) => `members/${orgId}/${person.userId}`
  const member = { organization_id: api.orgId, user_id: person.userId, role: 'admin' }
  for (let again = 0; again < 2; again++) {
    const reply = await send('PUT', template, at(api.orgId), { role: 'admin' })
    expect([reply.status, reply.body]).toEqual([200, member])
  }
  await send('PUT', template, at(other), { role: 'member' })
  const listed = (query: string) => send<Record[]>('GET', 'members', `members?${query}`)
  expect((await listed(`user_id=${person.userId}`)).body).toEqual([
    { organization_id: other, user_id: person.userId, role: 'member' },
    member,
  ])
  expect((await listed(`organization_id=${api.orgId}&user_id=${person.userId}`)).body).toEqual([member])
  const first = await listed(`user_id=${person.userId}&limit=1`)
  const next = /<([^>]+)>/.exec(first.headers.get('link')!)![1]!
  expect((await call(api.url + next, { token: token! })).body).toEqual([member])
  const remove = () => send('DELETE', template, at(api.orgId))
  expect([(await remove()).status, (await remove()).status]).toEqual([204, 204])
  expect((await listed(`organization_id=${api.orgId}&user_id=${person.userId}`)).body).toEqual([])

  const entries = await api.db`
    select action, actor_kind, credential from keyhook.audit_entries
    where org_id = ${api.orgId} and target_id = ${person.userId} order by id`
  const actor = { actor_kind: 'operator', credential: jtiOf(token!) }
  expect([...entries]).toEqual([
    { action: 'member.added', ...actor },
    { action: 'member.removed', ...actor },
  ])
  expect((await send('PUT', template, `members/${newId('org')}/${person.userId}`, { role: 'admin' })).status).toBe(404)
  expect((await send('PUT', template, at(other), { role: 'boss' })).status).toBe(422)
})

test('an operator token is shown once, listed, and refused from the request after its revocation on', async () => {
  const issued = await send<Record & { token: string }>('POST', 'tokens', undefined, {
    name: 'gateway',
    ttl_seconds: 60,
  })
  const { token: secret, ...shown } = issued.body
  expect(shown).toMatchObject({ id: jtiOf(secret), name: 'gateway', created_by: jtiOf(token!), revoked_at: null })
  expect((await send<Record[]>('GET', 'tokens')).body[0]).toEqual(shown)
  const status = async () => (await call(`${api.url}/operator/v1/users`, { token: secret })).status
  expect(await status()).toBe(200)
  const revoke = () => send('DELETE', 'tokens/{token_id}', `tokens/${shown.id}`)
  expect((await revoke()).status).toBe(204)
  expect(await status()).toBe(401)
  const [revoked] = (await send<Record[]>('GET', 'tokens')).body
  expect(revoked).toEqual({ ...shown, revoked_at: expect.any(String) })
  expect((await revoke()).status).toBe(204)
  expect((await send<Record[]>('GET', 'tokens')).body[0]).toEqual(revoked)
})

test('an operator token that was signed but never stored is refused', async () => {
  const unknown = await api.issuer.issue({ subject: 'operator', ttlSeconds: 60, operator: true })
  expect((await call(`${api.url}/operator/v1/users`, { token: unknown })).status).toBe(401)
})
