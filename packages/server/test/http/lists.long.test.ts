import { connect as connectSocket } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newId, type OrgId } from '../../src/lib/ids.ts'
import { captureLog } from '../kit/captured-log.ts'
import { call, type Reply } from '../kit/client.ts'
import { type Person, startApi, type TestApi } from '../kit/installation.ts'

const rows = 25_000

const captured = captureLog()
let api: TestApi
let orgId: OrgId
let owner: Person
let keys: string
let expected: string[]

beforeAll(async () => {
  // One connection for everything but authentication: a request that holds it blocks all others.
  const environment = { KEYHOOK_DATABASE_CONNECTIONS: '1', KEYHOOK_KEYS_PER_ORG_MAX: '100000' }
  api = await startApi(environment, captured.log)
  orgId = await api.organization()
  owner = await api.person([{ orgId, role: 'owner' }])
  keys = `${api.url}/api/v1/organizations/${orgId}/api-keys`
  const ids = Array.from({ length: rows }, () => newId('key'))
  await api.db`
    insert into keyhook.api_keys (org_id, id, name, key_prefix, hash, created_by, revoked_at)
    select ${orgId}, id, repeat('name ', 40), 'kh_' || lpad(n::text, 8, '0'), sha256(id::bytea), ${owner.userId},
      case when n % 5 = 0 then now() end
    from unnest(${ids}::text[]) with ordinality as t (id, n)`
  await api.db`analyze keyhook.api_keys`
  expected = ids.toSorted().reverse()
})
afterAll(() => api.close())

type Key = { id: string; status: string }

test('a list of 25,000 keys is complete, newest first, each key once', async () => {
  const reply = await call<Key[]>(`${keys}?status=all`, { token: owner.token })
  expect(reply.status).toBe(200)
  expect(reply.headers.get('link')).toBeNull()
  expect(reply.body.map((key) => key.id)).toEqual(expected)
  const active = await call<Key[]>(keys, { token: owner.token })
  expect(active.body).toHaveLength(rows * 0.8)
  expect(active.body.every((key) => key.status === 'active')).toBe(true)
})

test.each([1_000, 777])('pages of %i, followed by their Link headers, give the same list', async (limit) => {
  const seen: string[] = []
  let next: string | undefined = `/api/v1/organizations/${orgId}/api-keys?status=all&limit=${limit}`
  while (next !== undefined) {
    const reply: Reply<Key[]> = await call(api.url + next, { token: owner.token })
    expect(reply.status).toBe(200)
    seen.push(...reply.body.map((key) => key.id))
    const link = reply.headers.get('link')
    expect(reply.body).toHaveLength(link === null ? rows - seen.length + reply.body.length : limit)
    next = link === null ? undefined : /^<([^>]+)>; rel="next"$/.exec(link)![1]
  }
  expect(seen).toEqual(expected)
})

test('the last page has no Link, even when it is exactly full', async () => {
  const mine = await api.organization()
  const { token } = await api.person([{ orgId: mine, role: 'owner' }])
  const list = `${api.url}/api/v1/organizations/${mine}/api-keys`
  for (const name of ['a', 'b', 'c', 'd']) await call(list, { token, body: { name } })
  const first = await call<Key[]>(`${list}?limit=2`, { token })
  const second = await call<Key[]>(api.url + /<(.+)>/.exec(first.headers.get('link')!)![1], { token })
  expect([first.body.length, second.body.length, second.headers.get('link')]).toEqual([2, 2, null])
  expect((await call(`${list}?limit=4`, { token })).headers.get('link')).toBeNull()
})

test('a list outside of /api/v1 is a page of 100 unless a limit is given', async () => {
  const mine = await api.organization()
  const { token } = await api.person([{ orgId: mine, role: 'owner' }])
  await api.db`
    insert into keyhook.events (org_id, seq, id, type, body, sequence)
    select ${mine}, n, 'evt_' || lpad(n::text, 26, '0'), 'backup.failed', '{}', n from generate_series(1, 150) n`
  await api.db`insert into keyhook.event_counters (org_id, last_seq, last_sequence) values (${mine}, 150, 150)`
  const first = await call<object[]>(`${api.url}/platform/v1/organizations/${mine}/events`, { token })
  const second = await call<object[]>(api.url + /<(.+)>/.exec(first.headers.get('link')!)![1], { token })
  expect([first.body.length, second.body.length, second.headers.get('link')]).toEqual([100, 50, null])
  const { body: document } = await call<{ paths: Record<string, { get?: Operation }> }>(`${api.url}/openapi.json`, {})
  for (const [path, { get }] of Object.entries(document.paths)) {
    const limit = get?.parameters?.find(({ name }) => name === 'limit')
    if (limit !== undefined)
      expect([path, limit.schema.default]).toEqual([path, path.startsWith('/api/v1') ? undefined : 100])
  }
})

type Operation = { parameters?: { name: string; schema: { default?: number } }[] }

test('keys that are created between two pages do not shift the next page', async () => {
  const first = await call<Key[]>(`${keys}?status=all&limit=10`, { token: owner.token })
  const made = await call<Key>(keys, { token: owner.token, body: { name: 'newer' } })
  const second = await call<Key[]>(api.url + /<(.+)>/.exec(first.headers.get('link')!)![1], { token: owner.token })
  expect([...first.body, ...second.body].map((key) => key.id)).toEqual(expected.slice(0, 20))
  await api.db`delete from keyhook.api_keys where id = ${made.body.id}`
})

/** Requests the whole list and does not read the answer. */
function readNothing(token = owner.token) {
  const socket = connectSocket(Number(new URL(api.url).port), '127.0.0.1')
  socket.pause()
  socket.write(`GET ${new URL(keys).pathname}?status=all HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`)
  return socket
}

setFlagsFromString('--expose_gc')
const collectGarbage = runInNewContext('gc') as () => void

/** Memory in use after a garbage collection. */
function heldBytes(): number {
  collectGarbage()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

describe('a client that does not read', () => {
  test('holds no database connection: others are served with a pool of one', async () => {
    const sockets = Array.from({ length: 5 }, () => readNothing())
    await setTimeout(500)
    const started = performance.now()
    const reply = await call(`${keys}?limit=1`, { token: owner.token })
    expect(reply.status).toBe(200)
    expect(performance.now() - started).toBeLessThan(10_000)
    const [waiting] = await api.db`
      select count(*)::int as n from pg_stat_activity where datname = current_database() and state like 'idle in%'`
    expect(waiting!.n).toBe(0)
    for (const socket of sockets) socket.destroy()
  })

  test('costs a few pages of memory, not the list', async () => {
    const whole = (await call(`${keys}?status=all`, { token: owner.token })).text.length
    expect(whole).toBeGreaterThan(8_000_000)
    const before = heldBytes()
    const sockets = Array.from({ length: 10 }, () => readNothing())
    await setTimeout(3_000)
    expect(heldBytes() - before).toBeLessThan(1.5 * whole)
    for (const socket of sockets) socket.destroy()
  })

  test('gets the whole list once it reads', async () => {
    const socket = readNothing()
    await setTimeout(300)
    let text = ''
    socket.setEncoding('utf8')
    socket.on('data', (chunk) => {
      text += chunk
    })
    socket.resume()
    await expect.poll(() => text.endsWith('\r\n0\r\n\r\n')).toBe(true)
    const body = text.slice(text.indexOf('\r\n\r\n') + 4).replace(/(?:^|\r\n)[0-9a-f]+\r\n/g, '')
    expect(JSON.parse(body.trim())).toHaveLength(rows)
    socket.destroy()
  })
})

test.each([
  ['revoked', '/revoke', () => ({ method: 'POST' })],
  ['narrowed', '', () => ({ method: 'PATCH', body: { permissions: ['keys:read:own'] } })],
  ['ended', '', () => ({ method: 'PATCH', body: { expires_at: new Date(Date.now() + 500).toISOString() } })],
])('a key that is %s while a slow client reads with it gets no further page', async (_, path, change) => {
  const before = captured.lines().length
  const made = await call<{ id: string; api_key: string }>(keys, { token: owner.token, body: { name: 'slow' } })
  const socket = readNothing(made.body.api_key)
  let text = ''
  const closed = new Promise<void>((done) => socket.on('close', () => done()))
  await setTimeout(300)
  const one = `${keys.replace('/api/', '/platform/')}/${made.body.id}`
  const changed = await call(one + path, { token: owner.token, ...change() })
  expect(changed.status, changed.text).toBeLessThan(300)
  await setTimeout(600)
  socket.setEncoding('utf8')
  socket.on('data', (chunk) => {
    text += chunk
  })
  socket.resume()
  await closed
  expect(text).toMatch(/^HTTP\/1\.1 200 /)
  expect(text.endsWith('\r\n0\r\n\r\n')).toBe(false)
  const lines = captured.lines().slice(before)
  expect(lines.filter((line) => Number(line.level) >= 50)).toEqual([])
})

test('a client that disconnects from a long list is not logged as an error', async () => {
  const before = captured.lines().length
  const left = () => captured.lines().slice(before)
  const sockets = Array.from({ length: 20 }, () => readNothing())
  for (const socket of sockets) socket.on('error', () => {}).once('connect', () => socket.end(() => socket.destroy()))
  const answers = () => left().filter((line) => line.msg === 'request.answered')
  await expect.poll(() => answers().length).toBe(sockets.length)
  expect(left().filter((line) => Number(line.level) >= 40)).toEqual([])
})

test('a list that fails in the middle is visibly incomplete, and the log says why', async () => {
  const reading = fetch(`${keys}?status=all`, { headers: { authorization: `Bearer ${owner.token}` } })
  const response = await reading
  const reader = response.body!.getReader()
  await reader.read()
  await api.db`alter table keyhook.api_keys rename to away`
  const rest = (async () => {
    for (;;) if ((await reader.read()).done) return 'whole'
  })()
  await expect(rest).rejects.toThrow()
  await api.db`alter table keyhook.away rename to api_keys`
  expect(captured.lines().filter((line) => line.level === 50)).toEqual([
    expect.objectContaining({
      msg: 'request.failed',
      requestId: expect.stringMatching(/^req_/),
      route: '/api/v1/organizations/:orgId/api-keys',
      userId: owner.userId,
      err: expect.objectContaining({ message: expect.stringContaining('api_keys') }),
    }),
  ])
})
