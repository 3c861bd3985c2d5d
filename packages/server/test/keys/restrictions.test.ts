import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type KeyLimits, permissionPresets, widerParts } from '../../src/access/restrictions.ts'
import { createTransact } from '../../src/db/database.ts'
import { createKeyExpiry } from '../../src/keys/expiry.ts'
import { newId, type OrgId } from '../../src/lib/ids.ts'
import { isInNetworks } from '../../src/lib/network.ts'
import { hashApiKey } from '../../src/lib/secrets.ts'
import { call } from '../kit/client.ts'
import { routesOf } from '../kit/composed.ts'
import { type Person, startApi, startApiForTest, type TestApi } from '../kit/installation.ts'

/*
 * Keys that may do less than their user: permissions, networks, and a time. Each restriction is tried from outside.
 */

let api: TestApi
let orgId: OrgId
let owner: Person
beforeAll(async () => {
  api = await startApi({ KEYHOOK_TRUSTED_PROXIES: '127.0.0.1' })
  orgId = await api.organization()
  owner = await api.person([{ orgId, role: 'owner' }])
})
afterAll(() => api.close())

type Created = { id: string; name: string; key_prefix: string; api_key: string }
type Problem = { code: string; detail: string; errors?: { pointer: string; detail: string }[] }
type Details = {
  id: string
  name: string
  status: string
  expired: boolean
  permissions: string[] | null
  databases: string[] | null
  allowed_networks: string[] | null
  expires_at: string | null
  created_by: string
  created_by_key: string | null
  refused: { count: number; last_at: string | null; last_address: string | null }
}

const platform = (path: string) => `${api.url}/platform/v1/organizations/${orgId}/${path}`
const published = (path: string) => `${api.url}/api/v1/organizations/${orgId}/${path}`

const send = (token: string, body: object) => call<Created & Problem>(platform('api-keys'), { token, body })

async function create(body: object, token = owner.token): Promise<Created> {
  const made = await send(token, { name: 'restricted', ...body })
  expect(made.status, made.text).toBe(201)
  return made.body
}

const show = async (id: string) => (await call<Details>(platform(`api-keys/${id}`), { token: owner.token })).body
const change = (id: string, body: object, token = owner.token) =>
  call<Details & Problem>(platform(`api-keys/${id}`), { token, method: 'PATCH', body })
const rotate = (id: string, body: object, token: string) =>
  call<Created & Problem>(platform(`api-keys/${id}/rotate`), { token, body })

const get = (path: string, token: string, from?: string) =>
  call<Problem>(path, { token, headers: from === undefined ? {} : { 'x-forwarded-for': from } })
const inSeconds = (seconds: number) => new Date(Date.now() + seconds * 1_000).toISOString()

/** By which a process without restricted keys finds one (`access/access.ts` at a449823b). */
const keysStatementBefore = `
  with k as materialized (
    select p.n, k.id, k.org_id, k.created_by, k.role
    from (
      select n, decode(hash, 'hex') as hash
      from unnest(string_to_array((select $1::text), ',')) with ordinality as p (hash, n)
      offset 0
    ) as p
    cross join lateral (
      select k.id, k.org_id, k.created_by, k.role from keyhook.api_keys k
      where k.hash = p.hash and k.revoked_at is null and k.role is not null
      offset 0
    ) as k
  )
  select string_agg(
    k.n || e'\\x1f' || k.id || e'\\x1f' || k.created_by || e'\\x1f' || k.role || e'\\x1f' || o.id || e'\\x1f' ||
      trunc(date_part('epoch', o.created_at) * 1000)::bigint || e'\\x1f' || o.name,
    e'\\x1e'
  ) as found, pg_is_in_recovery() as standby
  from k join keyhook.organizations o on o.id = k.org_id`

describe('permissions', () => {
  test('a key may do what it has and nothing else, and the 403 says whether the key or the role lacks it', async () => {
    const { api_key: key } = await create({ permissions: ['webhooks:read'] })
    expect((await get(published('webhooks'), key)).status).toBe(200)
    const refused = await get(published('api-keys'), key)
    expect(refused).toMatchObject({ status: 403, body: { code: 'auth.key_restricted' } })
    expect(refused.body.detail).toContain('keys:read, which this API key does not have')
    expect(refused.headers.get('www-authenticate')).toContain('scope="keys:read"')
    expect((await get(`${api.url}/api/v1/organizations`, key)).status).toBe(403)
    const member = await api.person([{ orgId, role: 'member' }])
    const { api_key: ofMember } = await create({ permissions: ['webhooks:delete'] }, member.token)
    const gone = await call<Problem>(published(`webhooks/${newId('wh')}`), { token: ofMember, method: 'DELETE' })
    expect(gone.body).toMatchObject({ code: 'auth.permission_missing', detail: expect.stringContaining('(member)') })
  })

  test('with :own an owner reaches only keys that the same user created', async () => {
    const member = await api.person([{ orgId, role: 'member' }])
    const theirs = await create({}, member.token)
    const { api_key: key, id } = await create({ permissions: ['keys:read:own'] })
    const list = await call<{ id: string }[]>(published('api-keys'), { token: key })
    expect(list.body.map((one) => one.id)).toContain(id)
    expect(list.body.map((one) => one.id)).not.toContain(theirs.id)
  })

  test('a preset is stored as its permissions', async () => {
    for (const [preset, permissions] of Object.entries(permissionPresets)) {
      const { id } = await create({ preset })
      expect((await show(id)).permissions).toEqual(permissions)
    }
    expect((await send(owner.token, { name: 'x', preset: 'webhooks', permissions: ['keys:read'] })).status).toBe(422)
    // Nothing about null, which is the other form of the field.
    const misspelled = await send(owner.token, { name: 'x', permissions: ['keys:read', 'foo:bar'] })
    const errors = [{ pointer: '/permissions/1', detail: expect.stringMatching(/^must be one of /) }]
    expect(misspelled).toMatchObject({ status: 422, body: { errors } })
  })

  test('keys of /api/v1 and their list stay as published', async () => {
    const made = await call<Created>(published('api-keys'), { token: owner.token, body: { name: 'plain' } })
    expect(Object.keys(made.body)).toEqual(['id', 'name', 'key_prefix', 'api_key'])
    expect((await show(made.body.id)).permissions).toBeNull()
    const [first] = (await call<object[]>(published('api-keys'), { token: owner.token })).body
    expect(Object.keys(first!)).not.toContain('permissions')
    expect(
      (await call(published('api-keys'), { token: owner.token, body: { name: 'x', permissions: [] } })).status,
    ).toBe(422)
  })
})

describe('no widening', () => {
  const limits = {
    permissions: ['keys:create', 'keys:update', 'keys:read', 'webhooks:read'],
    allowed_networks: ['127.0.0.0/8'],
  }

  test('a key that is created under /api/v1 inherits every restriction', async () => {
    const expires_at = inSeconds(3_600)
    const { api_key: key } = await create({ ...limits, expires_at })
    const child = await call<Created>(published('api-keys'), { token: key, body: { name: 'child' } })
    expect(child.status).toBe(201)
    expect(await show(child.body.id)).toMatchObject({ ...limits, expires_at })
  })

  test.each([
    ['more permissions', { permissions: ['webhooks:delete'] }, 'permissions'],
    ['all permissions', { permissions: null }, 'permissions'],
    ['another network', { allowed_networks: ['10.0.0.0/8'] }, 'allowed_networks'],
    ['a larger network', { allowed_networks: ['127.0.0.0/7'] }, 'allowed_networks'],
    ['no networks', { allowed_networks: null }, 'allowed_networks'],
    ['a later end', { expires_at: inSeconds(7_200) }, 'expires_at'],
    ['no end', { expires_at: null }, 'expires_at'],
  ])('a key creates none with %s', async (_, wider, part) => {
    const { api_key: key } = await create({ ...limits, expires_at: inSeconds(3_600) })
    const refused = await send(key, { name: 'wider', ...wider })
    expect(refused.body).toMatchObject({ code: 'auth.key_restricted', detail: expect.stringContaining(part) })
    const own = await create({ permissions: ['webhooks:read'], expires_at: inSeconds(60) }, key)
    // Nor does it widen one, itself included, not even an unrestricted key.
    const { api_key: free } = await create({})
    for (const token of [key, free]) {
      const changed = await change(own.id, wider, token)
      expect(changed).toMatchObject({ status: 403, body: { code: 'auth.login_required' } })
    }
  })

  test('a restricted key gets no successor of a key that may do more', async () => {
    const { api_key: key } = await create(limits)
    const free = await create({})
    expect((await rotate(free.id, {}, key)).body.code).toBe('auth.key_restricted')
    expect((await get(published('webhooks'), free.api_key)).status).toBe(200)
  })

  test('a key changes no key that may do more than itself, not even to narrow it, and ends none without that permission', async () => {
    const { api_key: key } = await create({ permissions: ['keys:update', 'keys:create', 'webhooks:read'] })
    const free = await create({})
    expect((await change(free.id, { expires_at: inSeconds(60) }, key)).body.code).toBe('auth.key_restricted')
    expect((await change(free.id, { name: 'renamed' }, key)).body.code).toBe('auth.key_restricted')
    const small = await create({ permissions: ['webhooks:read'] })
    expect((await change(small.id, { name: 'renamed' }, key)).status).toBe(200)
    const ended = await rotate(small.id, { overlap_seconds: 0 }, key)
    expect(ended.body.detail).toContain('keys:revoke')
    const sooner = await change(small.id, { expires_at: inSeconds(60) }, key)
    expect(sooner).toMatchObject({ status: 403, body: { detail: expect.stringContaining('keys:revoke') } })
    expect((await show(small.id)).expires_at).toBeNull()
  })

  test('a key ends itself, and with keys:revoke:own only keys of its own user', async () => {
    const permissions = ['keys:update', 'keys:read', 'keys:revoke:own', 'webhooks:read']
    const { id, api_key: key } = await create({ permissions })
    const admin = await api.person([{ orgId, role: 'admin' }])
    const foreign = await create({ permissions: ['webhooks:read'] }, admin.token)
    const own = await create({ permissions: ['webhooks:read'] })
    const end = (keyId: string, token = key) => change(keyId, { expires_at: inSeconds(60) }, token)
    expect((await end(foreign.id)).body.detail).toContain('keys:revoke')
    expect((await end(own.id)).status).toBe(200)
    expect((await end(id)).status).toBe(200)
    const updating = await create({ permissions: ['keys:update', 'keys:read'] })
    expect((await end(updating.id, updating.api_key)).status).toBe(200)
  })

  test('nobody gets a key that acts as somebody else, or gives it more', async () => {
    const admin = await api.person([{ orgId, role: 'admin' }])
    const ofOwner = await create({ permissions: ['webhooks:read'] })
    expect((await rotate(ofOwner.id, {}, admin.token)).status).toBe(404)
    expect((await change(ofOwner.id, { permissions: null }, admin.token)).body.code).toBe('auth.key_restricted')
    // Less is allowed, as revoking is.
    expect((await change(ofOwner.id, { expires_at: inSeconds(60) }, admin.token)).status).toBe(200)
    const member = await api.person([{ orgId, role: 'member' }])
    expect((await change(ofOwner.id, { name: 'mine' }, member.token)).status).toBe(404)
  })

  test('no route by which keys are made or changed gives one more than the key of the request has', async () => {
    const wide = { permissions: null, databases: null, allowed_networks: null, expires_at: null }
    const bodies = [{ name: 'x' }, { name: 'x', ...wide }, wide, { expires_at: null }, {}]
    const caller = await create({ ...limits, expires_at: inSeconds(3_600) })
    const before = await show(caller.id)
    const free = await create({})
    const member = { name: 'bot', role: 'admin' }
    const bot = await call<{ user_id: string }>(platform('service-members'), { token: owner.token, body: member })
    const routes = routesOf(api).filter(({ audit }) => /^key\.(created|updated|rotated)$/.test(audit ?? ''))
    expect(routes).toHaveLength(5)
    for (const { method, path } of routes) {
      for (const id of [caller.id, free.id]) {
        const url = api.url + path.replace(':orgId', orgId).replace(':userId', bot.body.user_id).replace(':keyId', id)
        for (const body of bodies) await call(url, { token: caller.api_key, method, body })
      }
    }
    const listed = await call<Details[]>(platform('api-keys?status=all&limit=100'), { token: owner.token })
    const made = listed.body.filter(({ created_by_key }) => created_by_key === caller.id)
    expect(made.length).toBeGreaterThanOrEqual(3)
    for (const one of [...made, await show(caller.id)]) {
      expect(one).toMatchObject({ permissions: before.permissions, allowed_networks: before.allowed_networks })
      expect(Date.parse(one.expires_at!)).toBeLessThanOrEqual(Date.parse(before.expires_at!))
    }
    expect(await show(free.id)).toMatchObject({ name: free.name, status: 'active', expires_at: null })
    expect(listed.body.filter(({ created_by }) => created_by === bot.body.user_id)).toEqual([])
  })

  test('widerParts compares each part, and nothing is wider than itself', () => {
    const database = newId('db')
    const all: KeyLimits = { restrictions: null, expiresAt: null }
    const some: KeyLimits = {
      restrictions: { permissions: ['keys:read:own'], databases: [database], networks: ['2001:db8::/32'] },
      expiresAt: new Date(1),
    }
    expect([widerParts(all, all), widerParts(some, some), widerParts(some, all)]).toEqual([[], [], []])
    expect(widerParts(all, some)).toEqual(['permissions', 'databases', 'allowed_networks', 'expires_at'])
    const other = { ...some, restrictions: { ...some.restrictions, permissions: ['keys:read'] as const } }
    expect(widerParts(other, some)).toEqual(['permissions'])
    expect(widerParts(some, other)).toEqual([])
    const smaller = { ...some, restrictions: { ...some.restrictions, networks: ['2001:db8:1::/48'] } }
    expect(widerParts(smaller, some)).toEqual([])
    expect(widerParts(some, smaller)).toEqual(['allowed_networks'])
  })
})

describe('expiry', () => {
  test('from expires_at on the key answers the 401 of a revoked key, is listed as revoked and frees its place', async () => {
    const small = await startApiForTest({ KEYHOOK_KEYS_PER_ORG_MAX: '2' })
    const org = await small.organization()
    const { token } = await small.person([{ orgId: org, role: 'owner' }])
    const keys = `${small.url}/platform/v1/organizations/${org}/api-keys`
    const expires_at = inSeconds(1.5)
    const made = await call<Created>(keys, { token, body: { name: 'short', expires_at } })
    const revoked = await call<Created>(keys, { token, body: { name: 'revoked' } })
    await call(`${small.url}/api/v1/organizations/${org}/api-keys/${revoked.body.id}`, { token, method: 'DELETE' })
    const last = await call<Created>(keys, { token, body: { name: 'last' } })
    expect((await call(keys, { token, body: { name: 'too many' } })).status).toBe(422)
    const list = `${small.url}/api/v1/organizations`
    let seen = 0
    for (;;) {
      const before = Date.now()
      const { status, text } = await call(list, { token: made.body.api_key })
      if (status === 401) {
        expect(text).toBe((await call(list, { token: revoked.body.api_key })).text)
        break
      }
      // Both clocks are of this machine.
      expect(before).toBeLessThanOrEqual(Date.parse(expires_at))
      seen += 1
    }
    expect(seen).toBeGreaterThan(0)
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(expires_at) - 5)
    const active = await call<{ id: string }[]>(`${small.url}/api/v1/organizations/${org}/api-keys`, { token })
    expect(active.body.map(({ id }) => id)).toEqual([last.body.id])
    const all = (await call<Details[]>(`${keys}?status=revoked`, { token })).body
    expect(all.map(({ id, status, expired }) => [id, status, expired])).toEqual([
      [revoked.body.id, 'revoked', false],
      [made.body.id, 'revoked', true],
    ])
    expect((await call(keys, { token, body: { name: 'its place' } })).status).toBe(201)
    // It never comes back.
    const changed = await call<Problem>(`${keys}/${made.body.id}`, {
      token,
      method: 'PATCH',
      body: { expires_at: null },
    })
    expect(changed).toMatchObject({ status: 409, body: { code: 'key.not_active' } })
    expect((await call<Problem>(`${keys}/${made.body.id}/rotate`, { token, body: {} })).body.code).toBe(
      'key.not_active',
    )
  })

  test('a time that is over is refused', async () => {
    const refused = await send(owner.token, { name: 'x', expires_at: inSeconds(-1) })
    expect(refused.body.errors).toEqual([{ pointer: '/expires_at', detail: 'must lie in the future' }])
  })

  test('an owner limits how long new keys last, also those of /api/v1; only a login token lengthens a key', async () => {
    const org = await api.organization()
    const { token } = await api.person([{ orgId: org, role: 'owner' }])
    const base = `${api.url}/platform/v1/organizations/${org}`
    const before = await call<Created>(`${base}/api-keys`, { token, body: { name: 'before' } })
    const put = (body: object, by = token) => call(`${base}/key-lifetime`, { token: by, method: 'PUT', body })
    expect((await put({ days_max: 30 }, before.body.api_key)).status).toBe(403)
    expect((await put({ days_max: 30 })).status).toBe(200)
    expect((await call(`${base}/key-lifetime`, { token })).body).toEqual({ days_max: 30, operator_days_max: null })
    const plain = await call<Created>(`${api.url}/api/v1/organizations/${org}/api-keys`, { token, body: { name: 'x' } })
    const end = async (id: string) => {
      const { expires_at } = (await call<Details>(`${base}/api-keys/${id}`, { token })).body
      return expires_at === null ? null : Math.round((Date.parse(expires_at) - Date.now()) / 86_400_000)
    }
    expect(await end(plain.body.id)).toBe(30)
    expect(await end(before.body.id)).toBeNull()
    const late = { name: 'x', expires_at: inSeconds(31 * 86_400) }
    expect((await call(`${base}/api-keys`, { token, body: late })).status).toBe(422)
    expect((await put({ days_max: null })).status).toBe(200)
    const audit = await call<{ action: string; details: object }[]>(`${base}/audit-log`, { token })
    expect(audit.body[0]).toMatchObject({ action: 'organization.key_lifetime_set', details: { from: 30, to: null } })
  })

  test('an end a few minutes beyond the limit, by a clock that is ahead, is taken as the limit', async () => {
    const org = await api.organization()
    const { token } = await api.person([{ orgId: org, role: 'owner' }])
    const base = `${api.url}/platform/v1/organizations/${org}`
    await call(`${base}/key-lifetime`, { token, method: 'PUT', body: { days_max: 90 } })
    const at = (minutes: number) => inSeconds(90 * 86_400 + minutes * 60)
    const made = await call<Created>(`${base}/api-keys`, { token, body: { name: 'x', expires_at: at(4) } })
    expect(made.status).toBe(201)
    const one = `${base}/api-keys/${made.body.id}`
    const { expires_at } = (await call<Details>(one, { token })).body
    expect(Date.parse(expires_at!)).toBeLessThanOrEqual(Date.parse(at(0)))
    expect((await call(`${one}/rotate`, { token, body: { expires_at: at(4) } })).status).toBe(201)
    expect((await call(`${base}/api-keys`, { token, body: { name: 'x', expires_at: at(7) } })).status).toBe(422)
  })

  test('a key that lasts longer than keys may now is rotated to what they may, and can be brought forward', async () => {
    const org = await api.organization()
    const { token } = await api.person([{ orgId: org, role: 'owner' }])
    const base = `${api.url}/platform/v1/organizations/${org}`
    const body = { name: 'x', expires_at: inSeconds(365 * 86_400) }
    const [one, other] = [
      await call<Created>(`${base}/api-keys`, { token, body }),
      await call<Created>(`${base}/api-keys`, { token, body }),
    ]
    await call(`${base}/key-lifetime`, { token, method: 'PUT', body: { days_max: 90 } })
    const rotated = await call<Created>(`${base}/api-keys/${one.body.id}/rotate`, { token, body: {} })
    const { expires_at } = (await call<Details>(`${base}/api-keys/${rotated.body.id}`, { token })).body
    expect(Math.round((Date.parse(expires_at!) - Date.now()) / 86_400_000)).toBe(90)
    const sooner = { token, method: 'PATCH', body: { expires_at: inSeconds(180 * 86_400) } }
    expect((await call(`${base}/api-keys/${other.body.id}`, sooner)).status).toBe(200)
    expect((await call(`${base}/api-keys/${other.body.id}`, { ...sooner, body: { expires_at: null } })).status).toBe(
      422,
    )
  })

  test('a job marks expired keys as revoked, and they are still shown as expired', async () => {
    const { id } = await create({ expires_at: inSeconds(3_600) })
    await api.db`update keyhook.api_keys set expires_at = now() - interval '1 second' where id = ${id}`
    const expiry = createKeyExpiry({ transact: createTransact(api.db, () => {}), onError() {} })
    await expiry.run()
    await expiry.close()
    const [row] = await api.db<{ same: boolean }[]>`
      select revoked_at = expires_at as same from keyhook.api_keys where id = ${id}`
    expect(row!.same).toBe(true)
    expect(await show(id)).toMatchObject({ status: 'revoked', expired: true })
  })

  test("the operator's limit counts where it is lower", async () => {
    const limited = await startApiForTest({ KEYHOOK_KEY_DAYS_MAX: '7' })
    const org = await limited.organization()
    const { token } = await limited.person([{ orgId: org, role: 'owner' }])
    const made = await call<Created>(`${limited.url}/api/v1/organizations/${org}/api-keys`, {
      token,
      body: { name: 'x' },
    })
    const details = await call<Details>(`${limited.url}/platform/v1/organizations/${org}/api-keys/${made.body.id}`, {
      token,
    })
    expect(Date.parse(details.body.expires_at!) - Date.now()).toBeLessThanOrEqual(7 * 86_400_000)
  })
})

describe('networks', () => {
  test.each([
    ['127.0.0.1', ['127.0.0.0/8'], true],
    ['::ffff:127.0.0.1', ['127.0.0.0/8'], true],
    ['128.0.0.1', ['127.0.0.0/8'], false],
    ['10.1.2.3', ['192.0.2.0/24', '10.1.2.3/32'], true],
    ['10.1.2.4', ['192.0.2.0/24', '10.1.2.3/32'], false],
    ['10.9.9.9', ['10.1.2.3/8'], true],
    ['2001:db8::5', ['2001:db8::/32'], true],
    ['2001:db9::5', ['2001:db8::/32'], false],
    ['2001:db8::5', ['0.0.0.0/0'], false],
    ['203.0.113.7', ['0.0.0.0/0'], true],
    ['203.0.113.7', ['::/0'], false],
    ['unknown', ['0.0.0.0/0', '::/0'], false],
    ['fe80::1%eth0', ['2001:db8::/32'], false],
  ])('%s in %j: %s', (address, networks, isIn) => {
    for (let i = 0; i < 2; i++) expect(isInNetworks(address, networks)).toBe(isIn)
  })

  test('a key works from its networks only, and refusals are counted on the key and not in the audit log', async () => {
    const { id, api_key: key } = await create({ allowed_networks: ['203.0.113.0/24', '2001:db8::1'] })
    const at = (address: string) => get(published('webhooks'), key, address)
    expect((await at('203.0.113.7')).status).toBe(200)
    expect((await at('2001:db8::1')).status).toBe(200)
    for (const address of ['203.0.114.7', '198.51.100.7']) {
      expect(await at(address)).toMatchObject({ status: 403, body: { code: 'auth.address_refused' } })
    }
    expect((await show(id)).allowed_networks).toEqual(['203.0.113.0/24', '2001:db8::1/128'])
    await expect.poll(async () => (await show(id)).refused).toMatchObject({ count: 2, last_address: '198.51.100.7' })
    const audit = await call<{ action: string }[]>(platform(`audit-log?actor=${id}`), { token: owner.token })
    expect(audit.body).toEqual([])
  })

  test('what is no network is refused', async () => {
    for (const network of [
      '10/8',
      '::ffff:10.0.0.1',
      '::ffff:0:0/96',
      '10.0.0.0/33',
      'localhost',
      '010.0.0.1',
      '2001:db8::010.0.0.1',
      '',
    ]) {
      const refused = await send(owner.token, { name: 'x', allowed_networks: [network] })
      expect(refused.body.errors?.[0]?.pointer, network).toBe('/allowed_networks/0')
    }
  })
})

describe('changing and rotating', () => {
  test('narrowing counts for the next request, and each change is in the audit log', async () => {
    const { id, api_key: key } = await create({})
    expect((await get(published('webhooks'), key)).status).toBe(200)
    const changed = await change(id, { name: 'narrow', permissions: ['keys:read'] })
    expect(changed.body).toMatchObject({ name: 'narrow', permissions: ['keys:read'] })
    expect((await get(published('webhooks'), key)).status).toBe(403)
    expect((await change(id, { permissions: null })).status).toBe(200)
    expect((await get(published('webhooks'), key)).status).toBe(200)
    const audit = await call<{ action: string; target_id: string; details: object }[]>(
      platform('audit-log?action=key.updated'),
      { token: owner.token },
    )
    expect(audit.body.filter(({ target_id }) => target_id === id).map(({ details }) => details)).toEqual([
      { permissions: null },
      { name: 'narrow', permissions: ['keys:read'] },
    ])
  })

  test('a rotation makes a key with the same settings, and the old key ends after the overlap', async () => {
    const settings = {
      permissions: ['webhooks:read'],
      allowed_networks: ['127.0.0.1/32'],
      expires_at: inSeconds(3_600),
    }
    const old = await create({ name: 'rotated', ...settings })
    const made = await rotate(old.id, { overlap_seconds: 1 }, owner.token)
    expect(made.status).toBe(201)
    expect(await show(made.body.id)).toMatchObject({ name: 'rotated', ...settings, created_by: owner.userId })
    const works = async (key: string) => (await get(published('webhooks'), key)).status === 200
    expect(await works(made.body.api_key)).toBe(true)
    await expect.poll(() => works(old.api_key)).toBe(false)
    expect(await works(made.body.api_key)).toBe(true)
    expect(await show(old.id)).toMatchObject({ status: 'revoked', expired: true })
  })

  test('without an overlap the old key ends at once; a key rotates itself, and a repetition shows no secret', async () => {
    const old = await create({ permissions: ['keys:create', 'webhooks:read'] })
    const url = platform(`api-keys/${old.id}/rotate`)
    const headers = { 'idempotency-key': randomUUID() }
    const made = await call<Created>(url, { token: old.api_key, body: { overlap_seconds: 0 }, headers })
    expect(made.status).toBe(201)
    expect((await get(published('webhooks'), old.api_key)).status).toBe(401)
    const again = await call<Created>(url, { token: made.body.api_key, body: { overlap_seconds: 0 }, headers })
    expect(again.body).toEqual({ id: made.body.id, name: old.name, key_prefix: made.body.key_prefix })
  })

  test('at the limit of keys a key is rotated without an overlap, and not with one', async () => {
    const small = await startApiForTest({ KEYHOOK_KEYS_PER_ORG_MAX: '1' })
    const org = await small.organization()
    const { token } = await small.person([{ orgId: org, role: 'owner' }])
    const keys = `${small.url}/platform/v1/organizations/${org}/api-keys`
    const { id } = (await call<Created>(keys, { token, body: { name: 'only' } })).body
    const rotated = (body: object) => call<Created & Problem>(`${keys}/${id}/rotate`, { token, body })
    expect((await rotated({ overlap_seconds: 60 })).body.code).toBe('limit.reached')
    expect((await rotated({ overlap_seconds: 0 })).status).toBe(201)
  })

  test('a key changes itself many times at once', async () => {
    const { id, api_key: key } = await create({ permissions: ['keys:update'] })
    for (let round = 0; round < 5; round++) {
      const changes = Array.from({ length: 8 }, (_, n) => change(id, { name: `name ${n}` }, key))
      expect((await Promise.all(changes)).map(({ status }) => status)).toEqual(Array(8).fill(200))
    }
  })

  test('a key does not outlive its end by rotating itself', async () => {
    const { id, api_key: key } = await create({ permissions: ['keys:create'], expires_at: inSeconds(600) })
    expect((await rotate(id, { expires_at: inSeconds(1_200) }, key)).status).toBe(403)
    expect((await rotate(id, { expires_at: null }, key)).status).toBe(403)
    expect((await rotate(id, { expires_at: inSeconds(1_200) }, owner.token)).status).toBe(201)
  })

  test('a process of an older version does not find a restricted key, and finds it again without restrictions', async () => {
    const { id, api_key: key } = await create({ permissions: ['keys:read'] })
    const found = async () => {
      const [answer] = await api.db.unsafe<{ found: string | null }[]>(keysStatementBefore, [hashApiKey(key)])
      return answer!.found
    }
    expect(await found()).toBeNull()
    await change(id, { permissions: null })
    expect(await found()).toContain(id)
    await change(id, { expires_at: inSeconds(3_600) })
    expect(await found()).toBeNull()
  })

  test('keys that were not used for a while are listed', async () => {
    const { id } = await create({})
    await api.db`update keyhook.api_keys set created_at = now() - interval '91 days' where id = ${id}`
    const unused = await call<{ id: string }[]>(platform('api-keys?unused_days=90'), { token: owner.token })
    expect(unused.body.map((one) => one.id)).toEqual([id])
  })
})
