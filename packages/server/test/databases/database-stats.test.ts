import { beforeAll, expect, test } from 'vitest'
import { recordActivity } from '../../src/databases/usage-sql.ts'
import { type DatabaseId, newId } from '../../src/lib/ids.ts'
import { call } from '../kit/client.ts'
import { ownedApi } from '../kit/owned-api.ts'

const api = ownedApi()
const path = '/platform/v1/organizations/{org_id}/databases/{database_id}/stats'
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
const record = (from = node) =>
  recordActivity(api.db, from, [{ id, sizeBytes: 8e9, connections: 3, connectionsMax: 55 }])

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

test('a database of another organization, or that is deleted, has none', async () => {
  const stranger = await api.person([{ orgId: await api.organization('Elsewhere'), role: 'owner' }])
  expect((await call(urlOf(id), { token: stranger.token })).status).toBe(404)
  expect((await call(urlOf(newId('db')), { token: api.owner.token })).status).toBe(404)
  await api.db`
    update keyhook.databases set status = 'deleted', deleted_at = now(), password_verifier = null where id = ${id}`
  expect((await call(urlOf(id), { token: api.owner.token })).status).toBe(404)
})
