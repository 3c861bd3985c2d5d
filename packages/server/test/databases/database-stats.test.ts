import { beforeAll, expect, test } from 'vitest'
import { recordActivity } from '../../src/databases/usage-sql.ts'
import { type DatabaseId, newId } from '../../src/lib/ids.ts'
import { call } from '../kit/client.ts'
import { ownedApi } from '../kit/owned-api.ts'

const api = ownedApi()
const path = '/platform/v1/organizations/{org_id}/databases/{database_id}/stats'
const usagePath = path.replace('stats', 'usage')
const node = 'of-no-machine'
const nothing = { size_bytes: null, connections: null, connections_max: null, at: null }
let id: DatabaseId

beforeAll(async () => {
  id = newId('db')
  await api.db`
    insert into keyhook.databases (org_id, id, name, status, node, host, port, created_by)
    values (${api.orgId}, ${id}, 'shop', 'available', ${node}, '127.0.0.1', 1, ${api.owner.userId})`
})

const urlOf = (database: string) =>
  `${api.url}${path.replace('{org_id}', api.orgId).replace('{database_id}', database)}`
const stats = async () => (await api.documented.call('GET', path, urlOf(id), { token: api.owner.token })).body
const usage = async () =>
  (await api.documented.call('GET', usagePath, urlOf(id).replace('stats', 'usage'), { token: api.owner.token })).body
const record = (from = node, connections = 3) =>
  recordActivity(api.db, from, [{ id, sizeBytes: 8e9, connections, connectionsMax: 55 }])

test('the statistics are those that the node of the database wrote last, and null before and long after', async () => {
  expect(await stats()).toEqual(nothing)
  await api.db`
    insert into keyhook.database_stats
      (org_id, database_id, storage_used_bytes, storage_limit_bytes, storage_state, measured_at)
    values (${api.orgId}, ${id}, 1, 2, 'normal', now())`
  expect(await stats()).toEqual(nothing)
  await record('another-node')
  expect(await stats()).toEqual(nothing)
  await record()
  expect(await stats()).toEqual({ size_bytes: 8e9, connections: 3, connections_max: 55, at: expect.any(String) })
  await api.db`update keyhook.database_stats set activity_at = now() - interval '3 minutes'`
  expect(await stats()).toEqual(nothing)
})

test('an hour has the most of what was measured in it; seven days are shown, and eight are kept', async () => {
  await api.db`delete from keyhook.database_history`
  expect(await usage()).toEqual({ hours: [] })
  await record('another-node')
  expect(await usage()).toEqual({ hours: [] })
  for (const connections of [3, 9, 5]) await record(node, connections)
  const now = { at: expect.stringMatching(/:00:00\.000Z$/), size_bytes: 8e9, connections: 9 }
  const recorded = await usage()
  // At the turn of an hour there are two.
  expect([[now], [expect.anything(), expect.anything()]]).toContainEqual((recorded as { hours: object[] }).hours)

  await api.db`delete from keyhook.database_history`
  for (const hours of [2, 7 * 24 - 1, 7 * 24 + 1, 9 * 24]) {
    await api.db`
      insert into keyhook.database_history (org_id, database_id, hour, size_bytes, connections)
      values (${api.orgId}, ${id}, now() - make_interval(hours => ${hours}), 7, ${hours})`
  }
  expect(await usage()).toMatchObject({ hours: [{ connections: 167 }, { connections: 2 }] })
  await record()
  const kept = await api.db<{ connections: number }[]>`
    select connections from keyhook.database_history where size_bytes = 7 order by hour`
  expect(kept.map(({ connections }) => connections)).toEqual([169, 167, 2])
})

test('a database of another organization, or that is deleted, has none', async () => {
  const stranger = await api.person([{ orgId: await api.organization('Elsewhere'), role: 'owner' }])
  expect((await call(urlOf(id), { token: stranger.token })).status).toBe(404)
  expect((await call(urlOf(newId('db')), { token: api.owner.token })).status).toBe(404)
  await api.db`
    update keyhook.databases set status = 'deleted', deleted_at = now(), password_verifier = null where id = ${id}`
  for (const url of [urlOf(id), urlOf(id).replace('stats', 'usage')]) {
    expect((await call(url, { token: api.owner.token })).status).toBe(404)
  }
})
