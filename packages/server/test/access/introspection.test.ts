import * as openid from 'openid-client'
import { describe, expect, test } from 'vitest'
import { permissionsOf } from '../../src/access/roles.ts'
import { newId } from '../../src/lib/ids.ts'
import { createLocalIssuer } from '../../src/login/login-tokens.ts'
import { removeMember, removeUser, setMember } from '../../src/organizations/rules.ts'
import { captureLog } from '../kit/captured-log.ts'
import { call } from '../kit/client.ts'
import { startApiForTest, testOperator } from '../kit/installation.ts'
import { ownedApi } from '../kit/owned-api.ts'
import { recordUsage } from '../kit/usage.ts'

const api = ownedApi()

const path = '/operator/v1/introspect'
type Answer = { active: boolean; [field: string]: unknown }

let operatorToken: string | undefined
async function operator(): Promise<string> {
  operatorToken ??= await api.operatorToken()
  return operatorToken
}

const introspect = async (body: object): Promise<Answer> =>
  (await api.documented.call<Answer>('POST', path, api.url + path, { token: await operator(), body })).body

async function newKey(token = api.owner.token): Promise<{ id: string; api_key: string }> {
  const url = `${api.url}/api/v1/organizations/${api.orgId}/api-keys`
  return (await call<{ id: string; api_key: string }>(url, { token, body: { name: 'gateway' } })).body
}

const authorize = async (token: string | null, query = '', headers: Record<string, string> = {}) =>
  api.documented.call('GET', '/operator/v1/authorize', `${api.url}/operator/v1/authorize${query}`, {
    token: await operator(),
    headers: { ...(token !== null && { 'x-original-authorization': `Bearer ${token}` }), ...headers },
  })

describe('an active token', () => {
  test('that is a key is answered with its user, organization, role, permissions and id', async () => {
    const key = await newKey()
    // Members and the lifetime of keys are managed with login tokens only.
    const ofKey = permissionsOf('owner').filter(
      (one) => !['organizations:delete', 'members:manage', 'service-members:manage', 'keys:limit'].includes(one),
    )
    expect(await introspect({ token: key.api_key })).toEqual({
      active: true,
      token_type: 'api_key',
      sub: api.owner.userId,
      organization_id: api.orgId,
      role: 'owner',
      permissions: ofKey,
      scope: ofKey.join(' '),
      key_id: key.id,
    })
  })

  test('of a login is answered with its end, and with one organization or all of them', async () => {
    const second = await api.organization('Second')
    const person = await api.person([
      { orgId: api.orgId, role: 'member' },
      { orgId: second, role: 'admin' },
    ])
    const all = { active: true, token_type: 'login', sub: person.userId, exp: expect.any(Number) }
    expect(await introspect({ token: person.token })).toEqual({
      ...all,
      organization_id: null,
      role: null,
      permissions: [],
      scope: '',
      organizations: [
        { id: second, role: 'admin' },
        { id: api.orgId, role: 'member' },
      ],
    })
    const one = await introspect({ token: person.token, organization_id: api.orgId })
    expect(one).toEqual({
      ...all,
      organization_id: api.orgId,
      role: 'member',
      permissions: permissionsOf('member'),
      scope: permissionsOf('member').join(' '),
    })
    expect(one.permissions).toContain('keys:create:own')
    expect(one.permissions).not.toContain('webhooks:create')
  })

  test('that is a restricted key is answered with what the key may do, and whether its network was checked', async () => {
    const expires_at = new Date(Date.now() + 3_600_000).toISOString()
    const body = {
      name: 'x',
      permissions: ['webhooks:read'],
      allowed_networks: ['203.0.113.0/24'],
      expires_at,
    }
    const url = `${api.url}/platform/v1/organizations/${api.orgId}/api-keys`
    const key = (await call<{ id: string; api_key: string }>(url, { token: api.owner.token, body })).body
    const token = key.api_key
    const answer = {
      key_id: key.id,
      permissions: ['webhooks:read'],
      scope: 'webhooks:read',
      allowed_networks: ['203.0.113.0/24'],
      exp: Math.floor(Date.parse(expires_at) / 1_000),
    }
    expect(await introspect({ token })).toMatchObject({ ...answer, address_checked: false })
    expect(await introspect({ token, address: '203.0.113.7' })).toMatchObject({ ...answer, address_checked: true })
    expect(await introspect({ token, address: '198.51.100.7' })).toEqual({ active: false })
    expect((await authorize(token, '?permission=webhooks:read')).body).toMatchObject({ code: 'auth.key_restricted' })
    expect((await authorize(token, '?permission=webhooks:read&address=203.0.113.7')).status).toBe(204)
    expect((await authorize(token, '?address=203.0.113.7')).body).toMatchObject({ code: 'auth.key_restricted' })
    const refused = await authorize(token, '?permission=webhooks:delete&address=203.0.113.7')
    expect(refused.body).toMatchObject({ code: 'auth.key_restricted' })
    expect((await authorize(token, '?permission=webhooks:read&address=198.51.100.7')).body).toMatchObject({
      code: 'auth.address_refused',
    })
    expect((await authorize(token, '?address=elsewhere')).status).toBe(422)
  })

  test('may be sent as the form of RFC 7662, and counts as a use of the key', async () => {
    const key = await newKey()
    const reply = await api.documented.call<Answer>('POST', path, api.url + path, {
      token: await operator(),
      raw: new URLSearchParams({ token: key.api_key, token_type_hint: 'access_token' }).toString(),
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    })
    expect(reply.body).toMatchObject({ active: true, key_id: key.id })
    expect(reply.headers.get('cache-control')).toBe('no-store')
    const used = () => api.db`select 1 from keyhook.api_key_uses where id = ${key.id}`
    await expect.poll(async () => (await used()).length).toBe(1)
  })
})

describe('a published client of RFC 7662', () => {
  const client = (authentication: openid.ClientAuth) => {
    const server = { issuer: api.url, introspection_endpoint: api.url + path }
    const configuration = new openid.Configuration(server, 'any', undefined, authentication)
    openid.allowInsecureRequests(configuration)
    return configuration
  }

  test('reads what a key may do, and that it is revoked, with a client id and secret', async () => {
    const key = await newKey()
    const configuration = client(openid.ClientSecretBasic(await operator()))
    const answer = await openid.tokenIntrospection(configuration, key.api_key)
    expect(answer).toMatchObject({ active: true, sub: api.owner.userId, scope: expect.stringContaining('keys:read') })
    const url = `${api.url}/api/v1/organizations/${api.orgId}/api-keys/${key.id}`
    await call(url, { method: 'DELETE', token: api.owner.token })
    expect(await openid.tokenIntrospection(configuration, key.api_key)).toEqual({ active: false })
  })

  test('is refused with another secret, and no other operation takes a client id and secret', async () => {
    const configuration = client(openid.ClientSecretBasic('another'))
    await expect(openid.tokenIntrospection(configuration, 'x')).rejects.toMatchObject({ status: 401 })
    const authorization = `Basic ${Buffer.from(`any:${await operator()}`).toString('base64')}`
    for (const other of ['/operator/v1/organizations', '/operator/v1/authorize'])
      expect((await call(api.url + other, { headers: { authorization } })).status).toBe(401)
  })
})

describe('inactive from the next request on, and nothing else is said', () => {
  const inactive = { active: false }

  test('a revoked key, and the key and login of a removed member or user', async () => {
    const key = await newKey()
    await call(`${api.url}/api/v1/organizations/${api.orgId}/api-keys/${key.id}`, {
      method: 'DELETE',
      token: api.owner.token,
    })
    expect(await introspect({ token: key.api_key })).toEqual(inactive)

    const person = await api.person([{ orgId: api.orgId, role: 'admin' }])
    const theirs = (await newKey(person.token)).api_key
    await setMember(api.db, testOperator, { orgId: api.orgId, userId: person.userId, role: 'member' })
    expect(await introspect({ token: theirs })).toMatchObject({ active: true, role: 'member' })
    await removeMember(api.db, testOperator, { orgId: api.orgId, userId: person.userId })
    expect(await introspect({ token: theirs })).toEqual(inactive)
    expect(await introspect({ token: person.token, organization_id: api.orgId })).toEqual(inactive)
    expect(await introspect({ token: person.token })).toMatchObject({ active: true, organizations: [] })
    await removeUser(api.db, testOperator, { userId: person.userId })
    expect(await introspect({ token: person.token })).toEqual(inactive)
  })

  test('a token that does not reach the organization', async () => {
    const elsewhere = await api.organization('Elsewhere')
    const key = await newKey()
    for (const token of [key.api_key, api.owner.token]) {
      expect(await introspect({ token, organization_id: api.orgId })).toMatchObject({ active: true })
      expect(await introspect({ token, organization_id: elsewhere })).toEqual(inactive)
      expect(await introspect({ token, organization_id: newId('org') })).toEqual(inactive)
    }
  })

  test('expired, foreign and malformed tokens, and operator tokens', async () => {
    const yesterday = createLocalIssuer({ masterKeys: api.masterKeys, now: () => new Date(Date.now() - 86_400_000) })
    const expired = await yesterday.issue({ subject: api.owner.userId, ttlSeconds: 60 })
    const strange = [
      '',
      ' ',
      'garbage',
      'a.b.c',
      'kh_abc',
      `${(await newKey()).api_key} `,
      'é',
      'a\u0000b',
      'x'.repeat(9_000),
    ]
    for (const token of [expired, await operator(), `${api.owner.token}x`, ...strange]) {
      expect(await introspect({ token }), token).toEqual(inactive)
    }
  })
})

test('a batch is answered in its order, also beyond what one look-up takes', async () => {
  const keys = [await newKey(), await newKey()]
  const tokens = Array.from({ length: 700 }, (_, n) => (n % 7 === 0 ? 'nothing' : keys[n % 2]!.api_key))
  const batch = '/operator/v1/introspect/batch'
  const reply = await api.documented.call<Answer[]>('POST', batch, api.url + batch, {
    token: await operator(),
    body: { tokens: [...tokens, api.owner.token] },
  })
  expect(reply.body.map((one) => one.key_id ?? one.sub ?? null)).toEqual([
    ...tokens.map((_, n) => (n % 7 === 0 ? null : keys[n % 2]!.id)),
    api.owner.userId,
  ])
  const many = { tokens: Array.from({ length: 1_001 }, () => 'x') }
  expect((await call(api.url + batch, { token: await operator(), body: many })).status).toBe(422)
})

test.each([
  ['a repeated field', 'token=a&token=b', 400],
  ['no token', 'token_type_hint=x', 422],
  ['an unknown field', 'token=a&cached=yes', 422],
  ['bytes that are not UTF-8', new Uint8Array([0x74, 0xff]), 400],
])('a form with %s is refused', async (_, raw, status) => {
  const headers = { 'content-type': 'application/x-www-form-urlencoded' }
  expect((await call(api.url + path, { token: await operator(), raw, headers })).status).toBe(status)
})

test('no other operation takes a form', async () => {
  const headers = { 'content-type': 'application/x-www-form-urlencoded' }
  for (const other of ['/operator/v1/introspect/batch', '/operator/v1/events'])
    expect((await call(api.url + other, { token: await operator(), raw: 'token=a', headers })).status).toBe(415)
})

describe('the answer to a subrequest of a proxy', () => {
  const shown = (headers: Headers) => Object.fromEntries([...headers].filter(([name]) => name.startsWith('x-keyhook-')))

  test('is 204 with who it is', async () => {
    const key = await newKey()
    const reply = await authorize(key.api_key, `?organization_id=${api.orgId}&permission=webhooks:create`)
    expect(reply.status).toBe(204)
    expect(shown(reply.headers)).toEqual({
      'x-keyhook-user': api.owner.userId,
      'x-keyhook-token-type': 'api_key',
      'x-keyhook-key': key.id,
      'x-keyhook-organization': api.orgId,
      'x-keyhook-role': 'owner',
    })
    const login = await authorize(api.owner.token)
    expect([login.status, shown(login.headers)]).toEqual([
      204,
      { 'x-keyhook-user': api.owner.userId, 'x-keyhook-token-type': 'login' },
    ])
  })

  test('is 204 for a key of some databases only if the permission and one of them are given', async () => {
    const used = { orgId: api.orgId, userId: api.owner.userId, from: '2020-01-31T22:00:00Z', to: null }
    const [mine, other] = [await recordUsage(api.db, used), await recordUsage(api.db, used)]
    const url = `${api.url}/platform/v1/organizations/${api.orgId}/api-keys`
    const body = { name: 'x', databases: [mine] }
    const { api_key: key } = (await call<{ api_key: string }>(url, { token: api.owner.token, body })).body
    expect((await authorize(key, `?database_id=${mine}&permission=databases:read`)).status).toBe(204)
    for (const query of [
      '?permission=databases:read',
      `?database_id=${other}&permission=databases:read`,
      `?database_id=${mine}`,
      `?database_id=${mine}&permission=webhooks:read`,
    ])
      expect((await authorize(key, query)).body, query).toMatchObject({ code: 'auth.key_restricted' })
  })

  test('is 401 for a token that is missing, invalid or sent twice', async () => {
    expect((await authorize(null)).status).toBe(401)
    expect((await authorize('garbage')).headers.get('www-authenticate')).toContain('invalid_token')
    const twice = `Bearer ${api.owner.token}, Bearer ${api.owner.token}`
    expect((await authorize(null, '', { 'x-original-authorization': twice })).status).toBe(401)
  })

  test('is 403 for another organization and for a missing permission, and 422 for a wrong question', async () => {
    const member = await api.person([{ orgId: api.orgId, role: 'member' }])
    const here = `?organization_id=${api.orgId}`
    expect((await authorize(member.token, `${here}&permission=webhooks:read`)).status).toBe(204)
    expect((await authorize(member.token, `${here}&permission=webhooks:create`)).status).toBe(403)
    expect((await authorize(member.token, '?permission=webhooks:read')).status).toBe(403)
    expect((await authorize(member.token, `?organization_id=${await api.organization('Other')}`)).status).toBe(403)
    for (const query of ['?organization_id=org_x', '?permission=everything', `${here}&organization_id=${api.orgId}`])
      expect((await authorize(member.token, query)).status).toBe(422)
  })
})

test('no token gets into the log', async () => {
  const { log, text, lines } = captureLog()
  const own = await startApiForTest({}, log)
  const orgId = await own.organization()
  const { token } = await own.person([{ orgId, role: 'owner' }])
  const by = await own.operatorToken()
  for (const body of [{ token }, { token: `${token}x` }, { token, surplus: token }])
    await call(`${own.url}${path}`, { token: by, body })
  await call(`${own.url}/operator/v1/authorize`, {
    token: by,
    headers: { 'x-original-authorization': `Bearer ${token}x` },
  })
  const answered = lines().filter((line) => line.msg === 'request.answered' && line.route === path)
  // Debug for a success, info for a refusal: a gateway asks for every request.
  expect(answered.map(({ level }) => level)).toEqual([20, 20, 30])
  for (const secret of [token, by]) expect(text()).not.toContain(secret.split('.')[2])
})
