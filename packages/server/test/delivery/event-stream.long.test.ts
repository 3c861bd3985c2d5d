import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import type { EventType } from '../../src/delivery/events.ts'
import { createHints } from '../../src/delivery/hints.ts'
import { publishEvents } from '../../src/delivery/publish.ts'
import { deleteFinishedEvents } from '../../src/delivery/retention-sql.ts'
import { newId, type OrgId } from '../../src/lib/ids.ts'
import { openStream } from '../http/support/event-stream.ts'
import { call } from '../kit/client.ts'
import { apiAlone } from '../kit/composed.ts'
import { startApi } from '../kit/installation.ts'
import { ownedApi } from '../kit/owned-api.ts'
import { until } from '../kit/until.ts'

const api = ownedApi()

/** Publishes without a hint: the poll has to find it. */
const publishAll = (orgId: OrgId, types: EventType[], bodyBytes = 10) =>
  publishEvents(
    api.db,
    orgId,
    types.map((type) => ({ id: newId('evt'), type, body: `"${'x'.repeat(bodyBytes)}"` })),
  )
const many = (count: number): EventType[] => Array.from({ length: count }, () => 'invoice.paid')
const streamUrl = (orgId: OrgId, query = '', base = api.url) =>
  `${base}/platform/v1/organizations/${orgId}/events/stream${query}`
async function organization() {
  const orgId = await api.organization()
  return { orgId, ...(await api.person([{ orgId, role: 'owner' }])) }
}

test('events arrive in order with number, type and record, from any position', async () => {
  const { orgId, token } = await organization()
  await publishAll(orgId, ['database.created', 'backup.failed', 'invoice.paid'])
  const stream = await openStream(streamUrl(orgId, '?after=1'), token)
  const { headers, status } = stream.response
  expect([status, headers.get('content-type'), headers.get('cache-control'), headers.get('x-accel-buffering')]).toEqual(
    [200, 'text/event-stream', 'no-store', 'no'],
  )
  await until(() => stream.blocks.length === 3)
  await publishAll(orgId, ['database.failed'])
  await until(() => stream.blocks.length === 4)
  expect(stream.blocks.map(({ id, event }) => [id, event])).toEqual([
    [1, null],
    [2, 'backup.failed'],
    [3, 'invoice.paid'],
    [4, 'database.failed'],
  ])
  const listed = await call<object[]>(`${api.url}/platform/v1/organizations/${orgId}/events?limit=1`, { token })
  expect(JSON.parse(stream.blocks[3]!.data!)).toEqual(listed.body[0])
  const resumed = await openStream(streamUrl(orgId, '?after=0'), token, { 'last-event-id': '3' })
  await until(() => resumed.numbers().length === 1)
  expect(resumed.numbers()).toEqual([4])
})

test('without a position a stream starts with what happens from now on, and tells its position first', async () => {
  const { orgId, token } = await organization()
  await publishAll(orgId, many(2))
  const stream = await openStream(streamUrl(orgId), token)
  await until(() => stream.blocks.length === 1)
  expect(stream.blocks[0]).toEqual({ id: 2, event: null, data: null })
  await publishAll(orgId, many(1))
  await until(() => stream.numbers().length === 1)
  expect(stream.numbers()).toEqual([3])
})

test('a stream of some event types has only those', async () => {
  const { orgId, token } = await organization()
  await publishAll(orgId, ['database.created', 'backup.failed', 'invoice.paid', 'backup.failed'])
  const stream = await openStream(streamUrl(orgId, '?after=0&event_types=backup.failed,database.failed'), token)
  await until(() => stream.numbers().length === 2)
  expect(stream.numbers()).toEqual([2, 4])
})

test('a hint of another process brings an event at once, without a dispatcher', async () => {
  const { orgId, token } = await organization()
  const streams = await Promise.all(Array.from({ length: 3 }, () => openStream(streamUrl(orgId), token)))
  await until(() => streams.every((one) => one.blocks.length === 1))
  const other = createHints({ db: api.db, onError() {} })
  const tookMs: number[] = []
  // The poll comes once a second: that all of five wait less for it by chance is unlikely enough.
  for (let i = 1; i <= 5; i++) {
    await publishAll(orgId, many(1))
    const hintedMs = performance.now()
    other.give([orgId])
    await until(() => streams.every((one) => one.numbers().length === i))
    tookMs.push(performance.now() - hintedMs)
  }
  expect(tookMs.filter((ms) => ms < 400).length).toBeGreaterThanOrEqual(3)
})

test.each([
  ['?after=x', {}, 'after'],
  ['?after=1', {}, 'after'],
  ['', { 'last-event-id': 'evt_1' }, 'Last-Event-ID'],
  ['', { 'last-event-id': '7' }, 'Last-Event-ID'],
  ['?event_types=nothing', {}, 'event_types'],
])('%j with %j is refused by name', async (query, headers, parameter) => {
  const { orgId, token } = await organization()
  const reply = await call<{ errors: { parameter: string }[] }>(streamUrl(orgId, query), { token, headers })
  expect([reply.status, reply.body.errors[0]!.parameter]).toEqual([422, parameter])
})

test('a position that retention has reached is answered 410; a stream that it overtakes ends', async () => {
  const { orgId, token } = await organization()
  await publishAll(orgId, many(4))
  const behind = await openStream(streamUrl(orgId, '?after=4'), token)
  await until(() => behind.blocks.length === 1)
  await publishAll(orgId, many(2))
  await deleteFinishedEvents(api.db, orgId, { afterSeq: 0, upToSeq: 4 })
  const reply = await call(streamUrl(orgId, '?after=3'), { token })
  api.documented.check('GET', '/platform/v1/organizations/{org_id}/events/stream', reply)
  expect(reply).toMatchObject({ status: 410, body: { code: 'events.expired', oldest_sequence: 5 } })
  await until(() => behind.numbers().length === 2)
  await api.db`update keyhook.expired_events set last_sequence = 99 where org_id = ${orgId}`
  await publishAll(orgId, many(1))
  expect(await behind.ended).toBe('ended')
})

test('a revoked key ends its stream within seconds, also while nothing happens', async () => {
  const { orgId, token } = await organization()
  const keys = `${api.url}/api/v1/organizations/${orgId}/api-keys`
  const key = await call<{ id: string; api_key: string }>(keys, { token, body: { name: 'reader' } })
  const stream = await openStream(streamUrl(orgId), key.body.api_key)
  await until(() => stream.blocks.length === 1)
  await call(`${keys}/${key.body.id}`, { method: 'DELETE', token })
  expect(await stream.ended).toBe('ended')
  expect((await call(streamUrl(orgId), { token: key.body.api_key })).status).toBe(401)
})

test('what is published after the revocation of a key does not reach its stream', async () => {
  const { orgId, token } = await organization()
  const keys = `${api.url}/api/v1/organizations/${orgId}/api-keys`
  for (let i = 0; i < 2; i++) {
    const key = await call<{ id: string; api_key: string }>(keys, { token, body: { name: 'reader' } })
    const stream = await openStream(streamUrl(orgId), key.body.api_key)
    await until(() => stream.blocks.length === 1)
    await call(`${keys}/${key.body.id}`, { method: 'DELETE', token })
    await publishAll(orgId, many(1))
    expect(await stream.ended).toBe('ended')
    expect(stream.numbers()).toEqual([])
  }
})

test('the stream of a key that is narrowed or expires ends, without what is published after that', async () => {
  const { orgId, token } = await organization()
  const keys = `${api.url}/platform/v1/organizations/${orgId}/api-keys`
  const database = newId('db')
  await api.db`
    insert into keyhook.databases (org_id, id, name, status, node, host, port, created_by)
    select ${orgId}, ${database}, 'shop', 'available', 'none', '127.0.0.1', 1, user_id
    from keyhook.memberships where org_id = ${orgId}`
  const endMs = Date.now() + 2_000
  const changes = [
    { permissions: ['webhooks:read'] },
    { databases: [database] },
    { allowed_networks: ['203.0.113.0/24'] },
    { expires_at: new Date(endMs).toISOString() },
  ]
  const streams = await Promise.all(
    changes.map(async (change) => {
      const key = await call<{ id: string; api_key: string }>(keys, { token, body: { name: 'reader' } })
      const stream = await openStream(streamUrl(orgId), key.body.api_key)
      await until(() => stream.blocks.length === 1)
      expect((await call(`${keys}/${key.body.id}`, { token, method: 'PATCH', body: change })).status).toBe(200)
      return stream
    }),
  )
  await until(() => Date.now() > endMs)
  await publishAll(orgId, many(1))
  for (const stream of streams) {
    expect(await stream.ended).toBe('ended')
    expect(stream.numbers()).toEqual([])
  }
})

test('a read that has begun when access is lost sends nothing of what is published after that', async () => {
  const { orgId, token } = await organization()
  const keys = `${api.url}/platform/v1/organizations/${orgId}/api-keys`
  const key = await call<{ id: string; api_key: string }>(keys, { token, body: { name: 'reader' } })
  const stream = await openStream(streamUrl(orgId), key.body.api_key)
  await until(() => stream.blocks.length === 1)
  await api.db.begin(async (tx) => {
    await tx`lock table keyhook.events in access exclusive mode`
    await until(async () => {
      const reads = await api.db`
        select from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like '%octet_length(e.body)%'`
      return reads.length > 0
    })
    const body = { permissions: ['webhooks:read'] }
    expect((await call(`${keys}/${key.body.id}`, { token, method: 'PATCH', body })).status).toBe(200)
    await publishEvents(tx, orgId, [{ id: newId('evt'), type: 'invoice.paid', body: '{}' }])
  })
  expect(await stream.ended).toBe('ended')
  expect(stream.numbers()).toEqual([])
})

test('the number of streams is limited, for the process and for one organization', async () => {
  const limited = await startApi({ KEYHOOK_STREAMS_MAX: '3', KEYHOOK_STREAMS_PER_ORG_MAX: '2' })
  onTestFinished(() => limited.close())
  const [a, b] = [await limited.organization(), await limited.organization()]
  const roles = [a, b].map((orgId) => ({ orgId, role: 'member' as const }))
  const { token } = await limited.person(roles)
  const open = (orgId: OrgId) => openStream(streamUrl(orgId, '', limited.url), token)
  const first = await open(a)
  const statuses = [first, await open(a), await open(a), await open(b), await open(b)].map((one) => one.response.status)
  expect(statuses).toEqual([200, 200, 503, 200, 503])
  expect((await call(streamUrl(a, '', limited.url), { token })).headers.get('retry-after')).toBe('5')
  expect((await call(streamUrl(a, '', limited.url), { token, method: 'HEAD' })).status).toBe(503)
  first.abort()
  await until(async () => {
    const again = await open(a)
    return again.response.status === 200
  })
})

test('HEAD is answered without a stream', async () => {
  const { orgId, token } = await organization()
  const reply = await call(streamUrl(orgId), { token, method: 'HEAD' })
  expect([reply.status, reply.headers.get('content-type'), reply.text]).toEqual([200, 'text/event-stream', ''])
})

test('a reader that takes nothing costs bounded memory and no connection, and others are not held up', async () => {
  const { orgId, token } = await organization()
  for (let i = 0; i < 8; i++) await publishAll(orgId, many(100), 60_000)
  const { port, hostname } = new URL(api.url)
  const before = process.memoryUsage().arrayBuffers + process.memoryUsage().heapUsed
  const sockets = Array.from({ length: 20 }, () => {
    const socket = connect(Number(port), hostname)
    const path = `/platform/v1/organizations/${orgId}/events/stream?after=0`
    socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`)
    socket.pause()
    return socket
  })
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
  })
  const quick = await openStream(streamUrl(orgId, '?after=0'), token)
  await until(() => quick.numbers().length === 800)
  // All of it for each reader would be 960 MB.
  expect(process.memoryUsage().arrayBuffers + process.memoryUsage().heapUsed - before).toBeLessThan(300_000_000)
  const [busy] = await api.db`
    select count(*)::int as count from pg_stat_activity where datname = current_database() and state = 'idle in transaction'`
  expect(busy!.count).toBe(0)
})

test('stopping the server ends its streams, those of stalled readers too, and does not wait for them', async () => {
  const other = apiAlone(api)
  const sockets: Socket[] = []
  other.app.server.on('connection', (socket) => void sockets.push(socket))
  const url = await other.app.listen({ host: '127.0.0.1', port: 0 })
  const { orgId, token } = await organization()
  for (let i = 0; i < 3; i++) await publishAll(orgId, many(100), 60_000)
  const stream = await openStream(streamUrl(orgId, '', url), token)
  const stalled = connect(Number(new URL(url).port), '127.0.0.1')
  stalled.on('error', () => {})
  stalled.write(
    `GET /platform/v1/organizations/${orgId}/events/stream?after=0 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`,
  )
  stalled.pause()
  await until(() => stream.blocks.length === 1)
  // Until the buffers of both sides are full.
  await until(async () => {
    const sent = sockets.map((socket) => socket.bytesWritten)
    await sleep(200)
    return sockets.some((socket, i) => socket.writableNeedDrain && socket.bytesWritten === sent[i])
  })
  const startedMs = performance.now()
  await other.close()
  expect(performance.now() - startedMs).toBeLessThan(30_000)
  expect(await stream.ended).toBe('ended')
  stalled.destroy()
})
