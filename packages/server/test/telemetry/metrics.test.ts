import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { composeProbes } from '../../src/compose/api.ts'
import { type ClusterReading, createClusterGauges, readClusterMetrics } from '../../src/telemetry/cluster-metrics.ts'
import { createHistogram, createMetrics } from '../../src/telemetry/metrics.ts'
import { deliveryTest } from '../delivery/support/delivery-test.ts'
import { receiverFor } from '../delivery/support/receiver.ts'
import { captureLog } from '../kit/captured-log.ts'
import { call } from '../kit/client.ts'
import { ownedApi } from '../kit/owned-api.ts'
import { until } from '../kit/until.ts'
import { readMetrics, sumOf } from './metrics-text.ts'

const api = ownedApi()
const page = async () => (await call(`${api.url}/metrics`)).text

test('requests are timed by the pattern of their route, never by the path that was called', async () => {
  const path = `/api/v1/organizations/${api.orgId}/api-keys`
  await call(`${api.url}${path}`, { token: api.owner.token })
  await call(`${api.url}${path}`)
  await call(`${api.url}/nope-secret`)
  const { samples } = readMetrics(await page())
  const counts = samples.filter(({ name }) => name === 'keyhook_http_request_duration_seconds_count')
  const route = '/api/v1/organizations/:orgId/api-keys'
  expect(counts.map(({ labels }) => labels)).toEqual(
    expect.arrayContaining([
      { method: 'GET', route, status: '2xx' },
      { method: 'GET', route, status: '4xx' },
      { method: 'other', route: 'none', status: '4xx' },
    ]),
  )
  for (const { name, labels } of samples) {
    const values = Object.values(labels).join(' ')
    expect(values, name).not.toContain(api.orgId)
    expect(values, name).not.toContain('nope')
  }
})

test('a histogram has cumulative buckets, a sum and a count', () => {
  const histogram = createHistogram({ name: 'x_seconds', help: 'X.', labelNames: [], buckets: [0.1, 1] })
  for (const seconds of [0.1, 0.5, 0.5, 7]) histogram.observe(seconds, 'kind="a"')
  histogram.observe(0.25)
  expect(histogram.text().split('\n')).toEqual([
    '# HELP x_seconds X.',
    '# TYPE x_seconds histogram',
    'x_seconds_bucket{kind="a",le="0.1"} 1',
    'x_seconds_bucket{kind="a",le="1"} 3',
    'x_seconds_bucket{kind="a",le="+Inf"} 4',
    'x_seconds_sum{kind="a"} 8.1',
    'x_seconds_count{kind="a"} 4',
    'x_seconds_bucket{le="0.1"} 0',
    'x_seconds_bucket{le="1"} 1',
    'x_seconds_bucket{le="+Inf"} 1',
    'x_seconds_sum 0.25',
    'x_seconds_count 1',
    '',
  ])
})

test('waiting deliveries, their age and their lanes are measured before, while and after a dispatcher runs', async () => {
  const world = await deliveryTest({ KEYHOOK_DELIVERY_TIMEOUT_MS: '60000' })
  const release = Promise.withResolvers<object>()
  const slow = await receiverFor(() => release.promise)
  const fast = await receiverFor()
  await world.addWebhook(slow.url)
  await world.addWebhook(fast.url)
  const look = async () => {
    const probes = composeProbes(world, { log: captureLog().log, metrics: createMetrics(), pools: [] })
    const answer = await probes.inject({ url: '/metrics', remoteAddress: '127.0.0.1' })
    await probes.close()
    return (name: string, labels = {}) => sumOf(answer.body, `keyhook_cluster_${name}`, labels)
  }
  for (let i = 0; i < 30; i++) await world.publishOne()
  await world.db`update keyhook.events set created_at = now() - interval '1 hour'`

  // Nothing has run yet: the events are seen by their wakes alone.
  const before = await look()
  expect(before('deliveries_waiting', { kind: 'first' })).toBe(60)
  expect(before('lane_waiting_max')).toBe(30)
  expect(before('deliveries_oldest_waiting_seconds')).toBeGreaterThan(3_500)
  expect(before('lanes_late')).toBe(2)
  expect(before('wakes')).toBe(30)
  expect(before('wakes_oldest_seconds')).toBeGreaterThan(3_500)

  const dispatcher = await world.startDispatcher()
  // A slow receiver gets few requests at a time; the others wait. Outcomes of the fast one may be recorded a moment later.
  const during = await until(async () => {
    const now = await look()
    const [waiting, inFlight] = ['first', 'in_flight'].map((kind) => now('deliveries_waiting', { kind })!)
    return fast.received.length === 30 && waiting! > 0 && waiting! + inFlight! === 30 && now('wakes') === 0 && now
  })
  expect(during('lane_waiting_max')).toBe(during('deliveries_waiting', { kind: 'first' }))
  expect(during('lanes_late')).toBe(1)
  expect(during('deliveries_oldest_waiting_seconds')).toBeGreaterThan(3_500)

  release.resolve({})
  await until(() => slow.received.length === 30)
  await until(async () => (await world.attempts()).length === 60)
  await dispatcher.stop()
  const after = await look()
  expect(after('deliveries_waiting')).toBe(0)
  expect(after('deliveries_oldest_waiting_seconds')).toBe(0)
  expect(after('lanes_late')).toBe(0)
})

test('failing and suspended webhooks are counted apart, without paused and deleted ones', async () => {
  const world = await deliveryTest()
  for (let i = 0; i < 6; i++) await world.addWebhook(`https://example.com/${i}`)
  await world.db`
    with lane as (select id, row_number() over (order by id) as n from keyhook.lanes)
    update keyhook.lanes l
    set failures = 3, failing_since = now(), paused_until = case when n = 4 then now() + interval '1 day' end,
      ended_at = case when n = 5 then now() end,
      suspended_until = case when n < 3 then now() + interval '1 day' end, probe_at = case when n < 3 then now() end
    from lane where l.id = lane.id and n < 6`
  const registry = new Registry()
  createClusterGauges(registry, async () => ({
    ...(await readClusterMetrics(world.db, { deadAfterSeconds: 5 })),
    jobs: [],
  }))
  const text = await registry.metrics()
  const count = (state: string) => sumOf(text, 'keyhook_cluster_webhooks', { state })
  expect([count('failing'), count('suspended')]).toEqual([1, 2])
})

test('a node that was forgotten is not silent', async () => {
  const add = (id: string, state: string) => api.db`
    insert into keyhook.nodes (id, state, databases_max, seen_at) values (${id}, ${state}, 10, now() - interval '1 hour')`
  await add('node-lost', 'active')
  await add('node-given-up', 'forgotten')
  const { nodes } = await readClusterMetrics(api.db, { deadAfterSeconds: 5 })
  expect(nodes).toMatchObject({ silent: 1, stopped: 0 })
})

test('a lag between 10 and 60 minutes is told within 10 minutes', async () => {
  const { samples } = readMetrics(await createMetrics().text())
  const bounds = samples
    .filter(({ name }) => name === 'keyhook_delivery_lag_seconds_bucket')
    .map(({ labels }) => Number(labels.le?.replace('+Inf', 'Infinity')))
    .filter((bound) => bound >= 600 && bound <= 3_600)
  expect(bounds.slice(1).map((bound, i) => bound - bounds[i]!)).toEqual([600, 600, 600, 600, 600])
})

const reading: ClusterReading = {
  waiting: 1,
  lane_waiting_max: 1,
  retries: 2,
  in_flight: 3,
  oldest_waiting_seconds: 4,
  lanes_late: 0,
  lanes: { leased: 1, due: 0, later: 0, paused: 0, suspended: 0 },
  webhooks: { failing: 0, suspended: 0 },
  lane_overdue_seconds: 0,
  wakes: 0,
  wakes_oldest_seconds: 0,
  databases: {},
  nodes: { alive: 1, silent: 0, stopped: 0 },
  jobs: [{ queue: 'node', state: 'active', jobs: 1, due_seconds: 0 }],
}

test('many scrapes at once and after each other read the database once', async () => {
  const registry = new Registry()
  let reads = 0
  createClusterGauges(registry, async () => {
    reads += 1
    return reading
  })
  const pages = await Promise.all(Array.from({ length: 20 }, () => registry.metrics()))
  pages.push(await registry.metrics())
  expect(reads).toBe(1)
  for (const text of pages) expect(sumOf(text, 'keyhook_cluster_deliveries_waiting', { kind: 'retry' })).toBe(2)
})

test.each([
  ['does not answer', () => new Promise<ClusterReading>(() => {})],
  ['fails', () => Promise.reject(new Error('down'))],
])('while PostgreSQL %s, metrics are answered without what it would say', async (_what, read) => {
  const registry = new Registry()
  createClusterGauges(registry, read)
  const { samples } = readMetrics(await registry.metrics())
  expect(samples).toEqual([{ name: 'keyhook_postgres_up', labels: {}, value: 0 }])
})

test('a process tells its version, its roles and how busy its connections are', async () => {
  const metrics = createMetrics()
  metrics.describeProcess('1.2.3', ['api'])
  metrics.watchPools([api.db])
  await api.db.begin(async (tx) => {
    await tx`select 1`
    const text = await metrics.text()
    expect(sumOf(text, 'keyhook_build_info', { version: '1.2.3' })).toBe(1)
    expect(sumOf(text, 'keyhook_role', { role: 'api' })).toBe(1)
    expect(sumOf(text, 'keyhook_role', { role: 'jobs' })).toBe(0)
    expect(sumOf(text, 'keyhook_db_pool_connections', { pool: 'test', state: 'busy' })).toBeGreaterThanOrEqual(1)
    expect(sumOf(text, 'keyhook_db_pool_connections_max', { pool: 'test' })).toBe(10)
    expect(sumOf(text, 'keyhook_db_pool_waiting', { pool: 'test' })).toBe(0)
  })
})
