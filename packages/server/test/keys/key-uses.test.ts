import { setTimeout } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { insertApiKey, recordKeyUses } from '../../src/keys/sql.ts'
import { createKeyUses } from '../../src/keys/uses.ts'
import { type KeyId, newId, type OrgId } from '../../src/lib/ids.ts'
import { mintApiKey } from '../../src/lib/secrets.ts'
import { call } from '../kit/client.ts'
import { type Person, startApi, startApiForTest, type TestApi } from '../kit/installation.ts'

let api: TestApi
let orgId: OrgId
let owner: Person
beforeAll(async () => {
  api = await startApi()
  orgId = await api.organization()
  owner = await api.person([{ orgId, role: 'owner' }])
})
afterAll(() => api.close())

async function addKeys(count: number): Promise<KeyId[]> {
  const ids = Array.from({ length: count }, () => newId('key'))
  await api.db.begin(async (tx) => {
    for (const id of ids) {
      const { keyPrefix, hash } = mintApiKey('kh')
      await insertApiKey(
        tx,
        orgId,
        { id, name: 'x', keyPrefix, hash, createdBy: owner.userId, createdByKey: null },
        1_000_000,
      )
    }
  })
  return ids
}

const lastUsed = async (id: KeyId): Promise<Date | null> =>
  (await api.db`select last_used_at from keyhook.api_key_uses where id = ${id}`)[0]?.last_used_at ?? null

test('a use is in the list shortly after, and the request itself writes nothing', async () => {
  const mine = await startApiForTest()
  const id = await mine.organization()
  const { token } = await mine.person([{ orgId: id, role: 'owner' }])
  const keys = `${mine.url}/api/v1/organizations/${id}/api-keys`
  const made = await call<{ api_key: string }>(keys, { token, body: { name: 'x' } })
  const used = async () => (await call<{ last_used_at: string | null }[]>(keys, { token })).body[0]!.last_used_at
  expect(await used()).toBeNull()
  // A table that refuses updates would fail the request if the request wrote.
  await mine.db.unsafe(`
    create function keyhook.refuse() returns trigger language plpgsql as $$ begin raise 'read-only'; end $$;
    create trigger refuse before insert or update or delete on keyhook.api_keys execute function keyhook.refuse();
    create trigger refuse before insert or update or delete on keyhook.api_key_uses execute function keyhook.refuse()`)
  expect((await call(`${mine.url}/api/v1/organizations`, { token: made.body.api_key })).status).toBe(200)
  await mine.db.unsafe('drop function keyhook.refuse cascade')
  const before = Date.now()
  expect((await call(`${mine.url}/api/v1/organizations`, { token: made.body.api_key })).status).toBe(200)
  await expect.poll(used, { interval: 100 }).not.toBeNull()
  expect(Math.abs(Date.parse((await used())!) - before)).toBeLessThan(2_000)
})

test('a revoked key is not recorded as used', async () => {
  const made = await call<{ id: KeyId; api_key: string }>(`${api.url}/api/v1/organizations/${orgId}/api-keys`, {
    token: owner.token,
    body: { name: 'x' },
  })
  await call(`${api.url}/api/v1/organizations/${orgId}/api-keys/${made.body.id}`, {
    token: owner.token,
    method: 'DELETE',
  })
  await call(`${api.url}/api/v1/organizations`, { token: made.body.api_key })
  await setTimeout(2_300)
  expect(await lastUsed(made.body.id)).toBeNull()
})

test('what is remembered is written when the server stops', async () => {
  const [id] = await addKeys(1)
  const at = new Date('2026-01-02T03:04:05Z')
  const uses = createKeyUses({ db: api.db, now: () => at, onError: () => expect.unreachable() })
  uses.note(orgId, id!)
  await uses.close()
  expect(await lastUsed(id!)).toEqual(at)
})

test('last_used_at never goes backwards, whichever node writes last', async () => {
  const [id] = await addKeys(1)
  const later = new Date('2026-01-02T00:00:10Z')
  await recordKeyUses(api.db, [{ orgId, keyId: id!, at: later }])
  await recordKeyUses(api.db, [{ orgId, keyId: id!, at: new Date('2026-01-02T00:00:05Z') }])
  expect(await lastUsed(id!)).toEqual(later)
  const times = Array.from({ length: 40 }, (_, i) => new Date(later.getTime() + (i % 8) * 1_000))
  await Promise.all(times.map((at) => recordKeyUses(api.db, [{ orgId, keyId: id!, at }])))
  expect(await lastUsed(id!)).toEqual(new Date(later.getTime() + 7_000))
})

test('nodes that write the same keys in different orders do not deadlock', async () => {
  const ids = await addKeys(300)
  const start = Date.parse('2026-02-01T00:00:00Z')
  const shuffled = () => ids.toSorted(() => Math.random() - 0.5)
  await Promise.all(
    Array.from({ length: 40 }, (_, i) =>
      recordKeyUses(
        api.db,
        shuffled().map((keyId) => ({ orgId, keyId, at: new Date(start + i) })),
      ),
    ),
  )
  for (const id of ids.slice(0, 10)) expect(await lastUsed(id)).toEqual(new Date(start + 39))
})

test('an outage of the database loses recorded uses and nothing else', async () => {
  const [id] = await addKeys(1)
  const errors: unknown[] = []
  const uses = createKeyUses({ db: api.db, now: () => new Date(), onError: (error) => errors.push(error) })
  await api.db`alter table keyhook.api_key_uses rename to away`
  uses.note(orgId, id!)
  await uses.close()
  await api.db`alter table keyhook.away rename to api_key_uses`
  expect(errors).toHaveLength(1)
})

test('each of many keys in constant use is recorded every half second', async () => {
  const ids = await addKeys(50)
  let at = new Date('2026-01-02T00:00:00Z')
  const uses = createKeyUses({ db: api.db, now: () => at, onError: () => expect.unreachable() })
  for (const id of ids) uses.note(orgId, id)
  await setTimeout(700)
  at = new Date('2026-01-02T00:00:01Z')
  for (let round = 0; round < 3; round++) for (const id of ids) uses.note(orgId, id)
  await uses.close()
  for (const id of ids) expect(await lastUsed(id)).toEqual(at)
})

test('a key that was erased with its organization does not cost the uses of other keys', async () => {
  const [id] = await addKeys(1)
  const at = new Date()
  await recordKeyUses(api.db, [
    { orgId: newId('org'), keyId: newId('key'), at },
    { orgId, keyId: id!, at },
  ])
  expect(await lastUsed(id!)).toEqual(at)
})
