import { pino } from 'pino'
import { expect, test } from 'vitest'
import type { KeyId } from '../../src/lib/ids.ts'
import { removeMember, setMember } from '../../src/organizations/rules.ts'
import { call } from '../kit/client.ts'
import { apiAlone } from '../kit/composed.ts'
import { startApiForTest, testOperator } from '../kit/installation.ts'
import { ownedApi } from '../kit/owned-api.ts'

/*
 * A key can create keys. Who created which is shown, and a key can be revoked together with all that came from it.
 */

type Made = { id: KeyId; api_key: string }
type Listed = { id: KeyId; status: string; created_by: string; created_by_key: KeyId | null; creator_left: boolean }

const api = ownedApi()
const revokePath = '/platform/v1/organizations/{org_id}/api-keys/{api_key_id}/revoke'

const keysOf = (url: string, orgId: string) => `${url}/api/v1/organizations/${orgId}/api-keys`
const create = async (token: string, orgId: string = api.orgId, url: string = api.url): Promise<Made> =>
  (await call<Made>(keysOf(url, orgId), { token, body: { name: 'x' } })).body
const list = async (token: string, orgId: string = api.orgId): Promise<Listed[]> =>
  (await call<Listed[]>(`${keysOf(api.url, orgId)}?status=all`, { token })).body
const statusWith = async (token: string, url: string = api.url): Promise<number> =>
  (await call(`${url}/api/v1/organizations`, { token })).status

const revoke = (key: string, token: string, body: object | undefined = undefined, url: string = api.url) =>
  api.documented.call<{ revoked: KeyId[] }>(
    'POST',
    revokePath,
    `${url}${revokePath.replace('{org_id}', api.orgId).replace('{api_key_id}', key)}`,
    { token, method: 'POST', ...(body && { body }) },
  )

/** A key of the owner with two children and a grandchild, and a key beside it. */
async function family() {
  const root = await create(api.owner.token)
  const [first, second] = [await create(root.api_key), await create(root.api_key)]
  const grandchild = await create(second!.api_key)
  return { root, first: first!, second: second!, grandchild, beside: await create(api.owner.token) }
}

test('the list shows which key created which', async () => {
  const { root, first, grandchild, second } = await family()
  const byId = new Map((await list(api.owner.token)).map((key) => [key.id, key]))
  expect(byId.get(root.id)).toMatchObject({ created_by_key: null, created_by: api.owner.userId })
  expect(byId.get(first.id)).toMatchObject({ created_by_key: root.id, created_by: api.owner.userId })
  expect(byId.get(grandchild.id)).toMatchObject({ created_by_key: second.id, creator_left: false })
})

test('the list shows whose creator has left, until they are back', async () => {
  const member = await api.person([{ orgId: api.orgId, role: 'member' }])
  const made = await create(member.token)
  const shown = async () => (await list(api.owner.token)).find((key) => key.id === made.id)
  expect(await shown()).toMatchObject({ status: 'active', creator_left: false })
  await removeMember(api.db, testOperator, { orgId: api.orgId, userId: member.userId })
  expect(await shown()).toMatchObject({ status: 'active', creator_left: true })
  expect(await statusWith(made.api_key)).toBe(401)
  await setMember(api.db, testOperator, { orgId: api.orgId, userId: member.userId, role: 'admin' })
  expect(await shown()).toMatchObject({ status: 'active', creator_left: false })
  expect(await statusWith(made.api_key)).toBe(200)
})

test('a key is revoked with all its descendants and no other key', async () => {
  const { root, first, second, grandchild, beside } = await family()
  const tree = [root, first, second, grandchild]
  const { status, body } = await revoke(root.id, api.owner.token)
  expect([status, body]).toEqual([200, { revoked: tree.map((key) => key.id) }])
  for (const key of tree) expect(await statusWith(key.api_key)).toBe(401)
  expect(await statusWith(beside.api_key)).toBe(200)
})

test('each revoked key has an audit entry, which names the key that was asked for; a repeat changes nothing', async () => {
  const { root, first, second, grandchild } = await family()
  await revoke(root.id, api.owner.token)
  expect((await revoke(root.id, api.owner.token)).body).toEqual({ revoked: [] })
  const url = `${api.url}/platform/v1/organizations/${api.orgId}/audit-log?limit=10`
  const { body } = await call<{ action: string; target_id: string; details: object }[]>(url, { token: api.owner.token })
  const entries = body.filter((entry) => entry.action === 'key.revoked').slice(0, 4)
  const details = { descendant_of: root.id }
  expect(entries.reverse().map((entry) => [entry.target_id, entry.details])).toEqual([
    [root.id, {}],
    [first.id, details],
    [second.id, details],
    [grandchild.id, details],
  ])
})

test('descendants of a key that is revoked already are still found', async () => {
  const { root, first, second, grandchild } = await family()
  for (const key of [root, second]) {
    await call(`${keysOf(api.url, api.orgId)}/${key.id}`, { token: api.owner.token, method: 'DELETE' })
  }
  expect(await statusWith(grandchild.api_key)).toBe(200)
  expect((await revoke(root.id, api.owner.token)).body).toEqual({ revoked: [first.id, grandchild.id] })
  expect(await statusWith(grandchild.api_key)).toBe(401)
})

test('only the key itself is revoked if descendants are to stay', async () => {
  const { root, first } = await family()
  expect((await revoke(root.id, api.owner.token, { descendants: false })).body).toEqual({ revoked: [root.id] })
  expect((await revoke(root.id, api.owner.token, { descendants: false })).body).toEqual({ revoked: [] })
  expect(await statusWith(root.api_key)).toBe(401)
  expect(await statusWith(first.api_key)).toBe(200)
})

test('a member revokes only their own keys so; an admin those of all', async () => {
  const [member, admin] = [
    await api.person([{ orgId: api.orgId, role: 'member' }]),
    await api.person([{ orgId: api.orgId, role: 'admin' }]),
  ]
  const { root } = await family()
  expect((await revoke(root.id, member.token)).status).toBe(404)
  expect(await statusWith(root.api_key)).toBe(200)
  const own = await create(member.token)
  const child = await create(own.api_key)
  expect((await revoke(own.id, member.token)).body).toEqual({ revoked: [own.id, child.id] })
  const another = await create(member.token)
  expect((await revoke(another.id, admin.token)).body).toEqual({ revoked: [another.id] })
})

test('a key that was revoked after its request was let in creates no other', async () => {
  const key = await create(api.owner.token)
  let answered = Promise.resolve(0)
  await api.db.begin(async (tx) => {
    // The creation has passed the access check when it waits for this lock.
    await tx`select 1 from keyhook.organizations where id = ${api.orgId} for no key update`
    answered = call(keysOf(api.url, api.orgId), { token: key.api_key, body: { name: 'late' } }).then(
      (reply) => reply.status,
    )
    await expect.poll(waitingForLocks).toBe(1)
    await call(`${keysOf(api.url, api.orgId)}/${key.id}`, { token: api.owner.token, method: 'DELETE' })
  })
  expect(await answered).toBe(401)
  expect((await list(api.owner.token)).filter((one) => one.created_by_key === key.id)).toEqual([])
})

async function waitingForLocks(): Promise<number> {
  const [row] = await api.db<{ waiting: number }[]>`
    select count(*)::int as waiting from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`
  return row!.waiting
}

test('no descendant survives that keys of the tree create on two nodes while the tree is revoked', async () => {
  const other = apiAlone(api, pino({ level: 'silent' }))
  const nodes = [api.url, await other.app.listen({ host: '127.0.0.1', port: 0 })]
  const before = new Set((await list(api.owner.token)).map((key) => key.id))
  for (let round = 0; round < 2; round++) {
    const root = await create(api.owner.token)
    const usable = [root.api_key]
    const refused: number[] = []
    // Each client creates with the newest key it knows, until it is refused.
    const creating = Array.from({ length: 8 }, async (_, i) => {
      for (;;) {
        const token = usable.at(-1 - (i % Math.min(3, usable.length)))!
        const reply = await call<Made>(keysOf(nodes[i % 2]!, api.orgId), { token, body: { name: 'worm' } })
        if (reply.status !== 201) return void refused.push(reply.status)
        usable.push(reply.body.api_key)
      }
    })
    await expect.poll(() => usable.length).toBeGreaterThan(30)
    const { body } = await revoke(root.id, api.owner.token, { descendants: true }, nodes[round % 2]!)
    expect(body.revoked.length).toBeGreaterThan(30)
    await Promise.all(creating)
    expect(refused).toEqual(Array(8).fill(401))
    const surviving = (await list(api.owner.token)).filter((key) => key.status === 'active' && !before.has(key.id))
    expect(surviving).toEqual([])
  }
  await other.close()
})

test('revoking a tree waits for a removal of its creator before it locks a key, so the two cannot deadlock', async () => {
  const { root, grandchild } = await family()
  const { answered } = await api.db.begin(async (tx) => {
    // As the removal of a member: the membership first, then the member's keys in any order.
    await tx`
      select 1 from keyhook.memberships where org_id = ${api.orgId} and user_id = ${api.owner.userId} for update`
    const lock = (id: KeyId) =>
      tx`select 1 from keyhook.api_keys where org_id = ${api.orgId} and id = ${id} for no key update`
    await lock(grandchild.id)
    const answered = revoke(root.id, api.owner.token)
    await expect.poll(waitingForLocks).toBe(1)
    await lock(root.id)
    return { answered }
  })
  const { status, body } = await answered
  expect([status, body.revoked.length]).toEqual([200, 4])
})

test('with KEYHOOK_KEYS_REQUIRE_LOGIN keys neither create nor revoke keys, and login tokens do', async () => {
  const strict = await startApiForTest({ KEYHOOK_KEYS_REQUIRE_LOGIN: 'on' })
  const orgId = await strict.organization()
  const { token } = await strict.person([{ orgId, role: 'owner' }])
  const key = await create(token, orgId, strict.url)
  const keys = keysOf(strict.url, orgId)
  const revocation = `${strict.url}/platform/v1/organizations/${orgId}/api-keys/${key.id}/revoke`
  const asKey = [
    await call<{ code: string }>(keys, { token: key.api_key, body: { name: 'x' } }),
    await call<{ code: string }>(`${keys}/${key.id}`, { token: key.api_key, method: 'DELETE' }),
    await call<{ code: string }>(revocation, { token: key.api_key, body: { descendants: true } }),
  ]
  expect(asKey.map((reply) => [reply.status, reply.body.code])).toEqual(Array(3).fill([403, 'auth.login_required']))
  expect((await call(keys, { token: key.api_key })).status).toBe(200)
  // Another organization is answered 404 as always.
  const elsewhere = keysOf(strict.url, await strict.organization('Elsewhere'))
  expect((await call(elsewhere, { token: key.api_key, body: { name: 'x' } })).status).toBe(404)
  expect((await call(revocation, { token, body: {} })).status).toBe(200)
  // A gateway that asks is told the same.
  const operatorToken = await strict.operatorToken()
  const second = await create(token, orgId, strict.url)
  const introspected = await call<{ permissions: string[] }>(`${strict.url}/operator/v1/introspect`, {
    token: operatorToken,
    body: { token: second.api_key },
  })
  expect(introspected.body.permissions).toContain('keys:read')
  expect(introspected.body.permissions.filter((one) => /^keys:(create|revoke)/.test(one))).toEqual([])
  const authorize = (caller: string) =>
    call(`${strict.url}/operator/v1/authorize?permission=keys:create&organization_id=${orgId}`, {
      token: operatorToken,
      headers: { 'x-original-authorization': `Bearer ${caller}` },
    })
  expect([(await authorize(second.api_key)).status, (await authorize(token)).status]).toEqual([403, 204])
})
