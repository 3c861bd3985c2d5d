import { beforeAll, expect, test } from 'vitest'
import { permissionPresets } from '../../src/access/restrictions.ts'
import { isRefusedToKeys } from '../../src/access/roles.ts'
import { createTransact } from '../../src/db/database.ts'
import { publish } from '../../src/delivery/publish.ts'
import type { Route } from '../../src/http/route.ts'
import { type BackupId, type DatabaseId, newId } from '../../src/lib/ids.ts'
import { call } from '../kit/client.ts'
import { routesOf } from '../kit/composed.ts'
import { ownedApi } from '../kit/owned-api.ts'

/* Keys that are limited to some databases. No node runs jobs here, so the records are written into the tables. */

const api = ownedApi()
const platform = (path: string) => `${api.url}/platform/v1/organizations/${api.orgId}/${path}`

async function addDatabase(name: string): Promise<{ id: DatabaseId; backup: BackupId }> {
  const [id, backup] = [newId('db'), newId('bak')]
  await api.db`
    insert into keyhook.databases (org_id, id, name, status, node, host, port, created_by)
    values (${api.orgId}, ${id}, ${name}, 'available', 'none', '127.0.0.1', 1, ${api.owner.userId})`
  await api.db`
    insert into keyhook.backups (org_id, id, database_id, node, origin, status, size_bytes, sha256)
    values (${api.orgId}, ${backup}, ${id}, 'none', 'requested', 'completed', 1, 'x')`
  await createTransact(api.db, () => {})((tx) =>
    publish(tx, { orgId: api.orgId, type: 'database.created', data: { database_id: id, name } }),
  )
  return { id, backup }
}

type Made = Awaited<ReturnType<typeof addDatabase>>
let mine: Made
let other: Made
let key: string
beforeAll(async () => {
  mine = await addDatabase('mine')
  other = await addDatabase('other')
  // JSON allows what PostgreSQL's text does not.
  const event = {
    orgId: api.orgId,
    type: 'invoice.paid',
    data: { note: 'U+0000: \u0000, \ud800 and \\u0000' },
  } as never
  await createTransact(api.db, () => {})((tx) => publish(tx, event))
  key = await createKey({ databases: [mine.id] })
})

async function createKey(limits: object): Promise<string> {
  const made = await call<{ api_key: string }>(platform('api-keys'), {
    token: api.owner.token,
    body: { name: 'x', ...limits },
  })
  expect(made.status, made.text).toBe(201)
  return made.body.api_key
}

const get = <T = { code: string }>(path: string, token = key) => call<T>(platform(path), { token })

const ofOthers = { code: 'auth.key_restricted', detail: 'This API key is limited to other databases.' }

test('lists and events have what belongs to its databases', async () => {
  const ids = async (path: string) => (await get<{ id: string }[]>(path)).body.map(({ id }) => id)
  expect(await ids('databases')).toEqual([mine.id])
  expect(await ids('backups')).toEqual([mine.backup])
  expect((await get<{ body: string }[]>('events')).body.map(({ body }) => JSON.parse(body).data.database_id)).toEqual([
    mine.id,
  ])
  const all = (await get<unknown[]>('events', api.owner.token)).body
  expect(all).toHaveLength(3)
  expect((await call<unknown[]>(`${api.url}/api/v1/organizations`, { token: key })).body).toHaveLength(1)
})

test('a stream sends events of its databases', async () => {
  const response = await fetch(platform('events/stream?after=0'), { headers: { authorization: `Bearer ${key}` } })
  let text = ''
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk
    if (text.includes('event:')) break
  }
  expect(text).toContain(mine.id)
  expect(text).not.toContain(other.id)
})

test('restores into or from its databases are shown', async () => {
  const restore = async (backup: BackupId, into: DatabaseId) => {
    const id = newId('rst')
    await api.db`
      insert into keyhook.restores (org_id, id, backup_id, database_id, status, created_by)
      values (${api.orgId}, ${id}, ${backup}, ${into}, 'running', ${api.owner.userId})`
    return id
  }
  const into = (await addDatabase('into')).id
  const [from, foreign] = [await restore(mine.backup, into), await restore(other.backup, into)]
  expect((await get<{ id: string }[]>('restores')).body.map(({ id }) => id)).toEqual([from])
  expect((await get(`restores/${from}`)).status).toBe(200)
  expect((await get(`restores/${foreign}`)).body).toMatchObject(ofOthers)
  expect((await get(`restores/${newId('rst')}`)).status).toBe(404)
})

test('other databases and their backups are refused, and what does not exist is not found', async () => {
  const send = (method: string, path: string) => call<{ code: string }>(platform(path), { token: key, method })
  expect((await get(`databases/${mine.id}`)).status).toBe(200)
  expect((await get(`backups/${mine.backup}`)).status).toBe(200)
  for (const method of ['GET', 'DELETE']) {
    expect((await send(method, `databases/${other.id}`)).body).toMatchObject(ofOthers)
    expect((await send(method, `backups/${other.backup}`)).body).toMatchObject(ofOthers)
    expect((await send(method, `backups/${newId('bak')}`)).status).toBe(404)
  }
  expect((await send('POST', `backups/${other.backup}/cancel`)).body).toMatchObject(ofOthers)
  expect((await send('POST', `backups/${newId('bak')}/cancel`)).status).toBe(404)
})

test('every other route of an organization answers 403, restores included, and so do their permissions beside databases', async () => {
  const reachable = routesOf(api).filter((route) => route.needs !== 'operator' && route.isForDatabaseKeys)
  expect(
    reachable.map(({ method, path }) => `${method} ${path.replace('/platform/v1/organizations/:orgId', '…')}`).sort(),
  ).toEqual([
    'DELETE …/backups/:backupId',
    'DELETE …/databases/:databaseId',
    'GET /api/v1/organizations',
    'GET …/backups',
    'GET …/backups/:backupId',
    'GET …/databases',
    'GET …/databases/:databaseId',
    'GET …/databases/:databaseId/backup-schedule',
    'GET …/databases/:databaseId/stats',
    'GET …/databases/:databaseId/usage',
    'GET …/events',
    'GET …/events/stream',
    'GET …/restores',
    'GET …/restores/:restoreId',
    'POST …/backups/:backupId/cancel',
    'POST …/databases/:databaseId/backups',
    'PUT …/databases/:databaseId/backup-schedule',
  ])
  const pathOf = ({ path }: Route) =>
    path
      .replace(':orgId', api.orgId)
      .replace(':databaseId', mine.id)
      .replace(':backupId', mine.backup)
      .replace(/:\w+/g, 'wh_01m7n2bk5vfamv24tpe8shekmc')
  // Of the permissions that such a key has, its databases are what limits it.
  const permissions = permissionPresets.read_only
  const withPermissions = await createKey({ databases: [mine.id], permissions })
  for (const token of [key, withPermissions]) {
    for (const route of routesOf(api)) {
      const { needs } = route
      if (needs === 'operator' || route.isForDatabaseKeys || !route.path.includes(':orgId')) continue
      const { status, body } = await call(api.url + pathOf(route), {
        token,
        method: route.method,
        ...(route.body && { body: { nobody_takes_this: true } }),
      })
      const isLogin = isRefusedToKeys(needs, { keysRequireLogin: false })
      const answer = isLogin
        ? { code: 'auth.login_required' }
        : { code: 'auth.key_restricted', detail: expect.stringContaining('is limited to some databases, and cannot') }
      expect({ status, ...(body as object) }, `${route.method} ${route.path}`).toMatchObject({ status: 403, ...answer })
    }
  }
})

test('a key of a database that is deleted can still be changed and rotated', async () => {
  const gone = await addDatabase('gone')
  const body = { name: 'x', databases: [mine.id, gone.id] }
  const { id } = (await call<{ id: string }>(platform('api-keys'), { token: api.owner.token, body })).body
  await api.db`update keyhook.databases set status = 'deleted', deleted_at = now() where id = ${gone.id}`
  const change = { token: api.owner.token, method: 'PATCH', body: { allowed_networks: ['127.0.0.1'] } }
  expect((await call(platform(`api-keys/${id}`), change)).status).toBe(200)
  expect((await call(platform(`api-keys/${id}/rotate`), { token: api.owner.token, body: {} })).status).toBe(201)
})

test('an event of another type is not shown, whatever it names', async () => {
  const data = { database_id: mine.id }
  await createTransact(api.db, () => {})((tx) => publish(tx, { orgId: api.orgId, type: 'invoice.paid', data } as never))
  expect((await get<{ type: string }[]>('events')).body.map(({ type }) => type)).toEqual(['database.created'])
})

test('a database that does not exist is refused, and a key creates none for another database', async () => {
  const body = { name: 'x', databases: [mine.id, newId('db')] }
  const refused = await call<{ errors: object[] }>(platform('api-keys'), { token: api.owner.token, body })
  expect(refused.body.errors).toEqual([{ pointer: '/databases/1', detail: 'is no database of the organization' }])
  expect((await call(platform('api-keys'), { token: key, body: { name: 'x' } })).status).toBe(403)
})
