import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { eventTypes } from '../../src/delivery/events.ts'
import { newId, type OrgId } from '../../src/lib/ids.ts'
import { createLocalIssuer } from '../../src/login/login-tokens.ts'
import { setMember } from '../../src/organizations/rules.ts'
import type { Reply } from '../kit/client.ts'
import { type Documented, readDocumented } from '../kit/documented.ts'
import { type Person, startApi, type TestApi, testOperator } from '../kit/installation.ts'

/*
 * The eight operations of the published interface, every answer checked against /openapi.json, once with a login token
 * and once with an API key.
 */

const organizations = '/api/v1/organizations'
const keys = '/api/v1/organizations/{org_id}/api-keys'
const key = '/api/v1/organizations/{org_id}/api-keys/{api_key_id}'
const webhooks = '/api/v1/organizations/{org_id}/webhooks'
const webhook = '/api/v1/organizations/{org_id}/webhooks/{webhook_id}'
const deliveries = '/api/v1/organizations/{org_id}/webhooks/{webhook_id}/deliveries'

type CreatedKey = { id: string; name: string; key_prefix: string; api_key: string }
type CreatedWebhook = { id: string; url: string; event_types: string[]; created_at: string; secret: string }

let api: TestApi
let documented: Documented
let orgId: OrgId
let owner: Person
let ownersKey: string

const at = (template: string, ids: Record<string, string> = {}) =>
  api.url + template.replace(/\{(\w+)\}/g, (_, name) => ({ org_id: orgId, ...ids })[name as string]!)

const send = <T>(
  method: string,
  template: string,
  options: {
    ids?: Record<string, string>
    query?: string
    token?: string | null
    body?: unknown
    headers?: Record<string, string>
  } = {},
): Promise<Reply<T>> =>
  documented.call<T>(method, template, at(template, options.ids) + (options.query ?? ''), {
    token: owner.token,
    ...options,
  })

beforeAll(async () => {
  api = await startApi()
  documented = await readDocumented(api.url)
  orgId = await api.organization('Conformance')
  owner = await api.person([{ orgId, role: 'owner' }])
  ownersKey = (await send<CreatedKey>('POST', keys, { body: { name: 'the suite itself' } })).body.api_key
})
afterAll(() => api.close())

describe.each(['login token', 'API key'] as const)('with %s', (kind) => {
  const token = () => (kind === 'API key' ? ownersKey : owner.token)

  test('a key is created, listed without api_key, and revoked', async () => {
    const name = `ci of ${kind}`
    const created = await send<CreatedKey>('POST', keys, { token: token(), body: { name } })
    expect(created.status).toBe(201)
    expect(Object.keys(created.body)).toEqual(['id', 'name', 'key_prefix', 'api_key'])
    expect(created.body.name).toBe(name)
    expect(created.body.key_prefix).toMatch(/^kh_[0-9A-Za-z]{8}$/)
    expect(created.body.api_key).toMatch(new RegExp(`^${created.body.key_prefix}_[0-9A-Za-z]{32}$`))
    expect(created.headers.get('location')).toBe(`/api/v1/organizations/${orgId}/api-keys/${created.body.id}`)
    expect(created.headers.get('cache-control')).toBe('no-store')

    const { id, api_key, key_prefix } = created.body
    const listed = await send<Record<string, unknown>[]>('GET', keys, { token: token() })
    expect(listed.status).toBe(200)
    expect(Array.isArray(listed.body)).toBe(true)
    expect(listed.body[0]).toMatchObject({ id, name, key_prefix, status: 'active', created_by: owner.userId })
    expect(Object.keys(listed.body[0]!)).toEqual([
      'id',
      'name',
      'key_prefix',
      'status',
      'created_by',
      'created_by_key',
      'creator_left',
      'created_at',
      'last_used_at',
    ])

    const revoked = await send('DELETE', key, { token: token(), ids: { api_key_id: id } })
    expect([revoked.status, revoked.text, revoked.headers.get('content-type')]).toEqual([204, '', null])
    expect((await send('GET', organizations, { token: api_key })).status).toBe(401)
    const again = await send('DELETE', key, { token: token(), ids: { api_key_id: id } })
    expect(again.status).toBe(204)

    const idsOf = async (query: string) =>
      (await send<{ id: string; status: string }[]>('GET', keys, { token: token(), query })).body
        .filter((one) => one.id === id)
        .map((one) => one.status)
    expect(await idsOf('')).toEqual([])
    expect(await idsOf('?status=active')).toEqual([])
    expect(await idsOf('?status=revoked')).toEqual(['revoked'])
    expect(await idsOf('?status=all')).toEqual(['revoked'])
  })

  test('a webhook is created with its secret, listed without it, and deleted', async () => {
    const body = { url: 'https://example.com/hooks?a=1', event_types: [...eventTypes] }
    const created = await send<CreatedWebhook>('POST', webhooks, { token: token(), body })
    expect(created.status).toBe(201)
    expect(Object.keys(created.body)).toEqual(['id', 'url', 'event_types', 'created_at', 'secret'])
    expect(created.body).toMatchObject(body)
    expect(created.body.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
    expect(created.headers.get('location')).toBe(`/api/v1/organizations/${orgId}/webhooks/${created.body.id}`)

    const { secret: _, ...shown } = created.body
    const listed = await send<object[]>('GET', webhooks, { token: token() })
    expect(listed.status).toBe(200)
    expect(listed.body).toContainEqual(shown)

    const ids = { webhook_id: created.body.id }
    expect((await send('DELETE', webhook, { token: token(), ids })).status).toBe(204)
    expect((await send('DELETE', webhook, { token: token(), ids })).status).toBe(404)
    expect((await send<object[]>('GET', webhooks, { token: token() })).body).not.toContainEqual(shown)
  })

  test('the deliveries of a webhook are an array, and 404 once it is deleted', async () => {
    const body = { url: 'https://example.com/hooks', event_types: ['invoice.paid'] }
    const ids = { webhook_id: (await send<CreatedWebhook>('POST', webhooks, { token: token(), body })).body.id }
    const listed = await send<object[]>('GET', deliveries, { token: token(), ids })
    expect([listed.status, listed.body]).toEqual([200, []])
    await send('DELETE', webhook, { token: token(), ids })
    expect((await send('GET', deliveries, { token: token(), ids })).status).toBe(404)
  })

  test('the organizations list is an array of what the caller can reach', async () => {
    const other = await api.organization('Another')
    await api.person([{ orgId: other, role: 'owner' }])
    const listed = await send<{ id: string }[]>('GET', organizations, { token: token() })
    expect(listed.status).toBe(200)
    expect(listed.body).toEqual([{ id: orgId, name: 'Conformance', created_at: expect.any(String) }])
  })
})

test('a login token lists every organization of the user, an API key only its own', async () => {
  const second = await api.organization('Second')
  const both = await api.person([
    { orgId, role: 'member' },
    { orgId: second, role: 'admin' },
  ])
  const made = await send<CreatedKey>('POST', keys, { token: both.token, body: { name: 'of the first' } })
  const names = async (token: string) =>
    (await send<{ name: string }[]>('GET', organizations, { token })).body.map((one) => one.name)
  expect(await names(both.token)).toEqual(['Second', 'Conformance'])
  expect(await names(made.body.api_key)).toEqual(['Conformance'])
})

test.each(['Bearer', 'bearer', 'BEARER', 'bEaReR'])('the scheme may be written %s', async (scheme) => {
  for (const token of [owner.token, ownersKey]) {
    const reply = await send('GET', organizations, { token: null, headers: { authorization: `${scheme} ${token}` } })
    expect(reply.status).toBe(200)
  }
})

const credentials: [name: string, header: string | null, code: string, challenge: string][] = [
  ['no header', null, 'auth.required', 'Bearer realm="keyhook"'],
  ['another scheme', 'Basic dXNlcjpwYXNz', 'auth.required', 'Bearer realm="keyhook"'],
  ['a scheme that only starts alike', 'BearerX abc', 'auth.required', 'Bearer realm="keyhook"'],
  ['a scheme that has a hyphen', 'Bearer-X abc', 'auth.required', 'Bearer realm="keyhook"'],
  ['a scheme without a token', 'Bearer', 'auth.invalid_token', 'Bearer realm="keyhook", error="invalid_token"'],
  ['garbage', 'Bearer garbage', 'auth.invalid_token', 'Bearer realm="keyhook", error="invalid_token"'],
  ['two tokens', 'Bearer abc def', 'auth.invalid_token', 'Bearer realm="keyhook", error="invalid_token"'],
  ['a token of commas', 'Bearer a,b', 'auth.invalid_token', 'Bearer realm="keyhook", error="invalid_token"'],
  ['dots', 'Bearer a.b.c', 'auth.invalid_token', 'Bearer realm="keyhook", error="invalid_token"'],
  [
    'a key that does not exist',
    'Bearer kh_00000000_00000000000000000000000000',
    'auth.invalid_token',
    'Bearer realm="keyhook", error="invalid_token"',
  ],
]
test.each(credentials)('%s is answered 401 with a challenge', async (_, header, code, challenge) => {
  const reply = await send<{ code: string }>('GET', organizations, {
    token: null,
    ...(header !== null && { headers: { authorization: header } }),
  })
  expect(reply.status).toBe(401)
  expect(reply.body.code).toBe(code)
  expect(reply.headers.get('www-authenticate')).toBe(challenge)
})

test('revoked, unknown and malformed tokens are answered byte for byte the same', async () => {
  const made = await send<CreatedKey>('POST', keys, { body: { name: 'short-lived' } })
  await send('DELETE', key, { ids: { api_key_id: made.body.id } })
  const yesterday = createLocalIssuer({ masterKeys: api.masterKeys, now: () => new Date(Date.now() - 86_400_000) })
  const expired = await yesterday.issue({ subject: owner.userId, ttlSeconds: 60 })
  const wrongSignature = `${owner.token.slice(0, -8)}AAAAAAAA`
  const nobody = await api.issuer.issue({ subject: newId('usr'), ttlSeconds: 60 })
  const answers = new Set<string>()
  for (const token of [made.body.api_key, 'kh_abc', 'nonsense', wrongSignature, nobody, expired]) {
    const reply = await send('GET', keys, { token })
    const headers = [...reply.headers].filter(([name]) => name !== 'date')
    answers.add(JSON.stringify([reply.status, headers, reply.text]))
  }
  expect([...answers]).toHaveLength(1)
})

test('the answer to a role without the permission names the permission', async () => {
  const member = await api.person([{ orgId, role: 'member' }])
  const body = { url: 'https://example.com/', event_types: ['invoice.paid'] }
  const reply = await send<{ code: string; detail: string }>('POST', webhooks, { token: member.token, body })
  expect([reply.status, reply.body.code]).toEqual([403, 'auth.permission_missing'])
  expect(reply.body.detail).toContain('webhooks:create')
  expect(reply.headers.get('www-authenticate')).toContain('scope="webhooks:create"')
})

test('a member sees and revokes only their own keys', async () => {
  const member = await api.person([{ orgId, role: 'member' }])
  const own = await send<CreatedKey>('POST', keys, { token: member.token, body: { name: 'mine' } })
  const others = await send<CreatedKey>('POST', keys, { body: { name: 'not mine' } })
  const listed = await send<{ id: string }[]>('GET', keys, { token: member.token, query: '?status=all' })
  expect(listed.body.map((one) => one.id)).toEqual([own.body.id])
  expect((await send('DELETE', key, { token: member.token, ids: { api_key_id: others.body.id } })).status).toBe(404)
  expect((await send('GET', organizations, { token: others.body.api_key })).status).toBe(200)
  expect((await send('DELETE', key, { token: own.body.api_key, ids: { api_key_id: own.body.id } })).status).toBe(204)
  expect((await send('GET', organizations, { token: own.body.api_key })).status).toBe(401)
})

test('a key acts with the current role of its user', async () => {
  const person = await api.person([{ orgId, role: 'owner' }])
  const made = await send<CreatedKey>('POST', keys, { token: person.token, body: { name: 'follows the role' } })
  const body = { url: 'https://example.com/', event_types: ['backup.failed'] }
  const tries = () => send('POST', webhooks, { token: made.body.api_key, body }).then((reply) => reply.status)
  expect(await tries()).toBe(201)
  await setMember(api.db, testOperator, { orgId, userId: person.userId, role: 'member' })
  expect(await tries()).toBe(403)
  await setMember(api.db, testOperator, { orgId, userId: person.userId, role: 'admin' })
  expect(await tries()).toBe(201)
})
