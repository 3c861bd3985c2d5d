import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { deleteOldIdempotencyKeys, takesIdempotencyKey } from '../../src/http/idempotency.ts'
import { documentedPath } from '../../src/http/openapi/operations.ts'
import { newId } from '../../src/lib/ids.ts'
import { call, type Reply } from '../kit/client.ts'
import { routesOf } from '../kit/composed.ts'
import { ownedApi } from '../kit/owned-api.ts'
import { countRows } from '../kit/rows.ts'
import { changesOf, preparePlatform, type Wire } from './support/changes.ts'

const api = ownedApi()
let operator: string

beforeAll(async () => {
  await preparePlatform(api)
  operator = await api.operatorToken()
})

type Database = { id: string; password?: string }
const databases = '/platform/v1/organizations/{org_id}/databases'

const create = (key: string, body: object = { name: 'orders' }, token = api.owner.token): Promise<Reply<Database>> =>
  api.documented.call('POST', databases, api.url + databases.replace('{org_id}', api.orgId), {
    token,
    body,
    headers: { 'idempotency-key': key },
  })

const clear = () => api.db`
  update keyhook.databases set status = 'deleted', deleted_at = now(), password_verifier = null where status <> 'deleted'`

test('the same key and content create once, and answer the same record without its secret', async () => {
  const key = randomUUID()
  const first = await create(key)
  expect([first.status, first.headers.get('idempotency-replayed')]).toEqual([202, null])
  const before = await countRows(api.db)
  const again = await create(key)
  expect(again.headers.get('idempotency-replayed')).toBe('true')
  const { password, ...record } = first.body
  expect(password).toMatch(/^\w{32}$/)
  expect([again.status, again.body]).toEqual([202, record])
  expect(await countRows(api.db)).toEqual(before)
  const [row] = await api.db`select body from keyhook.idempotency_keys where key = ${key}`
  expect(row!.body).not.toContain(password)
})

test('the order of fields makes no difference, other content is refused', async () => {
  const send = (body: object, key: string) =>
    call<{ code: string }>(`${api.url}/operator/v1/users`, {
      token: operator,
      body,
      headers: { 'idempotency-key': key },
    })
  const key = randomUUID()
  expect((await send({ email: 'a@example.com', name: 'A' }, key)).status).toBe(201)
  expect((await send({ name: 'A', email: 'a@example.com' }, key)).headers.get('idempotency-replayed')).toBe('true')
  const other = await send({ name: 'A', email: 'b@example.com' }, key)
  expect([other.status, other.body.code]).toEqual([422, 'idempotency.key_reused'])
  expect((await send({ email: 'b@example.com' }, randomUUID())).status).toBe(201)
})

test('of many requests at the same time one creates, and all get the same record', async () => {
  const key = randomUUID()
  const answers = await Promise.all(Array.from({ length: 12 }, () => create(key, { name: 'at once' })))
  expect(new Set(answers.map(({ body }) => body.id)).size).toBe(1)
  expect(answers.filter(({ headers }) => headers.get('idempotency-replayed') === null)).toHaveLength(1)
  expect(answers.filter(({ body }) => body.password !== undefined)).toHaveLength(1)
  await clear()
})

test('a request that fails leaves its key unused, also when it fails at the very end', async () => {
  const key = randomUUID()
  expect((await create(key, { name: '' })).status).toBe(422)
  await api.db.unsafe(`
    create function keyhook.refuse() returns trigger language plpgsql as $$ begin raise 'not stored'; end $$;
    create trigger refuse before update on keyhook.idempotency_keys execute function keyhook.refuse()`)
  const before = await countRows(api.db)
  expect((await create(key)).status).toBe(500)
  expect(await countRows(api.db)).toEqual(before)
  await api.db.unsafe('drop function keyhook.refuse cascade')
  const made = await create(key)
  expect([made.status, made.headers.get('idempotency-replayed')]).toEqual([202, null])
  await clear()
})

test('a key belongs to one user; another user with the same key creates something else', async () => {
  const key = randomUUID()
  const admin = await api.person([{ orgId: api.orgId, role: 'admin' }])
  const [mine, theirs] = [await create(key), await create(key, { name: 'orders' }, admin.token)]
  expect(theirs.headers.get('idempotency-replayed')).toBeNull()
  expect(theirs.body.id).not.toBe(mine.body.id)
  await clear()
})

test('after a day a key is free again, and its row is deleted by maintenance', async () => {
  const key = randomUUID()
  const first = await create(key)
  const age = () =>
    api.db`update keyhook.idempotency_keys set created_at = now() - interval '25 hours' where key = ${key}`
  await age()
  const second = await create(key, { name: 'another' })
  expect(second.status).toBe(202)
  expect(second.body.id).not.toBe(first.body.id)
  expect((await create(key, { name: 'another' })).body.id).toBe(second.body.id)
  await age()
  await deleteOldIdempotencyKeys(api.db)
  expect(await api.db`select 1 from keyhook.idempotency_keys where key = ${key}`).toHaveLength(0)
  await clear()
})

test.each(['', 'x'.repeat(256), 'with space', 'é'])('%j is no key', async (key) => {
  expect((await create(key)).status).toBe(422)
})

test('events are published once for a key, to one organization or several', async () => {
  const second = await api.organization('Second')
  const event = (orgId: string) => ({ organization_id: orgId, type: 'invoice.paid', data: { amount: 1.5e300 } })
  const events = async () => (await api.db`select id from keyhook.events`).length
  for (const body of [event(api.orgId), [event(api.orgId), event(second)]]) {
    const headers = { 'idempotency-key': randomUUID() }
    const send = (given: object = body) =>
      call(`${api.url}/operator/v1/events`, { token: operator, body: given, headers })
    const first = await send()
    const count = await events()
    const again = await send()
    expect([again.status, again.body]).toEqual([202, first.body])
    expect(await events()).toBe(count)
    expect((await send(event(second))).status).toBe(422)
  }
  const unknown = { token: operator, body: event(newId('org')), headers: { 'idempotency-key': randomUUID() } }
  expect((await call(`${api.url}/operator/v1/events`, unknown)).status).toBe(422)
})

test('an event that is nested too deeply is refused with a key as without one', async () => {
  const data = `{"a":${'['.repeat(20_000)}${']'.repeat(20_000)}}`
  const raw = `{"organization_id":"${api.orgId}","type":"invoice.paid","data":${data}}`
  const send = (headers = {}) =>
    call<{ detail: string }>(`${api.url}/operator/v1/events`, { token: operator, raw, headers })
  // Which of the two it is depends on how much stack is left where the levels are counted.
  const reason = /must have at most 200 levels|nested too deeply/
  expect((await send()).body.detail).toMatch(reason)
  expect((await send({ 'idempotency-key': randomUUID() })).body.detail).toMatch(reason)
})

describe('in the document', () => {
  test('every creation outside of /api/v1 has the header, and nothing else has', () => {
    for (const route of routesOf(api)) {
      const operation = api.documented.document.paths[documentedPath(route.path)]![route.method.toLowerCase()]!
      const names = (operation.parameters as { name: string }[]).map(({ name }) => name)
      expect(names.includes('Idempotency-Key'), `${route.method} ${route.path}`).toBe(takesIdempotencyKey(route))
    }
  })
})

/** Values of these fields must never be repeated. */
const secrets = ['password', 'secret', 'token', 'api_key']
const fieldsOf = (value: unknown): string[] =>
  typeof value !== 'object' || value === null
    ? []
    : Object.entries(value).flatMap(([name, inner]) => [name, ...fieldsOf(inner)])

test('every creation of a member is repeated without a second change and without secrets', async () => {
  const wire: Wire = {}
  const changes = changesOf(api, wire)
  // After its answer nobody may repeat it.
  const isDeletion = (path: string) => path.endsWith('/organizations/:orgId/deletion')
  const keyed = routesOf(api).filter(
    (route) => takesIdempotencyKey(route) && route.needs !== 'operator' && !isDeletion(route.path),
  )
  expect(keyed.length).toBeGreaterThanOrEqual(6)
  for (const route of keyed) {
    const name = `${route.method} ${route.path}`
    wire.headers = { 'idempotency-key': randomUUID() }
    const change = await changes[name]!(api.owner.token)
    await change()
    const before = await countRows(api.db)
    await change()
    const reply = wire.last!
    expect([reply.status, reply.headers.get('idempotency-replayed')], name).toEqual([route.success.status, 'true'])
    expect(
      fieldsOf(reply.body).filter((field) => secrets.includes(field)),
      name,
    ).toEqual([])
    expect(await countRows(api.db), name).toEqual(before)
    await clear()
  }
})
