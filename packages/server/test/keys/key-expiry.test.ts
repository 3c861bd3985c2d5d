import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { createTransact } from '../../src/db/database.ts'
import { enableOptionalTypes } from '../../src/delivery/event-types.ts'
import { createKeyExpiry } from '../../src/keys/expiry.ts'
import type { OrgId } from '../../src/lib/ids.ts'
import { call } from '../kit/client.ts'
import { type Person, startApi, type TestApi } from '../kit/installation.ts'

let api: TestApi
let orgId: OrgId
let owner: Person
beforeAll(async () => {
  api = await startApi()
  await enableOptionalTypes(api.db, ['key.expiring', 'key.revoked'])
})
afterAll(() => api.close())
beforeEach(async () => {
  orgId = await api.organization()
  owner = await api.person([{ orgId, role: 'owner' }])
})

const hourMs = 3_600_000
const inHours = (hours: number) => new Date(Date.now() + hours * hourMs).toISOString()
const keysPath = () => `${api.url}/platform/v1/organizations/${orgId}/api-keys`

const create = async (expires_at: string | null): Promise<string> =>
  (await call<{ id: string }>(keysPath(), { token: owner.token, body: { name: 'ci', expires_at } })).body.id

/** The same as if so much time had passed: the trigger that notes a new end does not run. */
const pass = (hours: number) =>
  api.db.begin(async (tx) => {
    await tx`set local session_replication_role = replica`
    await tx`
      update keyhook.api_keys set expires_at = expires_at - make_interval(hours => ${hours}),
        notice_at = notice_at - make_interval(hours => ${hours})
      where org_id = ${orgId}`
  })

/** Each on connections of its own process would do the same: the rows are what they share. */
async function runNodes(count: number): Promise<void> {
  const nodes = Array.from({ length: count }, () =>
    createKeyExpiry({ transact: createTransact(api.db, () => {}), onError() {} }),
  )
  await Promise.all(nodes.map((node) => node.run()))
  await Promise.all(nodes.map((node) => node.close()))
}

async function events(): Promise<string[]> {
  const rows = await api.db<{ type: string; body: string }[]>`
    select type, body from keyhook.events where org_id = ${orgId} order by seq`
  return rows.map(({ type, body }) => {
    const { data } = JSON.parse(body)
    return `${type} ${data.days_left ?? data.reason}`
  })
}

test('two nodes announce an end 14, 7 and 1 days before it, each once, and then that the key has expired', async () => {
  await create(inHours(20 * 24))
  await runNodes(2)
  expect(await events()).toEqual([])
  const expected: string[] = []
  for (const [hours, event] of [
    [6 * 24 + 1, 'key.expiring 14'],
    [7 * 24, 'key.expiring 7'],
    [6 * 24, 'key.expiring 1'],
    [24, 'key.revoked expired'],
  ] as const) {
    await pass(hours)
    expected.push(event)
    await runNodes(2)
    await runNodes(2)
    expect(await events()).toEqual(expected)
  }
})

test('a key is announced only at times within its life', async () => {
  await create(inHours(3 * 24))
  await create(inHours(12))
  await create(null)
  await runNodes(2)
  expect(await events()).toEqual([])
  await pass(49)
  await runNodes(2)
  expect(await events()).toEqual(['key.revoked expired', 'key.expiring 1'])
})

test('a new end is announced anew, and the old one no more', async () => {
  const id = await create(inHours(20 * 24))
  await pass(13 * 24 + 1)
  await runNodes(2)
  // Nothing ran meanwhile: one event for the two times.
  expect(await events()).toEqual(['key.expiring 7'])
  const change = (expires_at: string) =>
    call(`${keysPath()}/${id}`, { token: owner.token, method: 'PATCH', body: { expires_at } })
  expect((await change(inHours(30 * 24))).status).toBe(200)
  await pass(10 * 24)
  await runNodes(2)
  expect(await events()).toEqual(['key.expiring 7'])
  await pass(6 * 24 + 1)
  await runNodes(2)
  expect(await events()).toEqual(['key.expiring 7', 'key.expiring 14'])
  expect((await change(inHours(2 * 24))).status).toBe(200)
  await pass(25)
  await runNodes(2)
  expect(await events()).toEqual(['key.expiring 7', 'key.expiring 14', 'key.expiring 1'])
})

test('a revoked key is not announced', async () => {
  const id = await create(inHours(3 * 24))
  await call(`${keysPath()}/${id}/revoke`, { token: owner.token, method: 'POST' })
  await pass(49)
  await runNodes(1)
  await pass(48)
  await runNodes(1)
  expect(await events()).toEqual(['key.revoked revoked'])
})

test('what is due in several organizations is all done in one run', async () => {
  const ids: OrgId[] = []
  for (let i = 0; i < 3; i++) {
    orgId = await api.organization()
    owner = await api.person([{ orgId, role: 'owner' }])
    await create(inHours(3 * 24))
    await create(inHours(3 * 24))
    await pass(49)
    ids.push(orgId)
  }
  await runNodes(2)
  const [row] = await api.db<{ events: number }[]>`
    select count(*)::int as events from keyhook.events where org_id = any (${ids}::text[])`
  expect(row).toEqual({ events: 6 })
})
