import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { readHeaders } from '../../src/delivery/sender/senders.ts'
import { settleAttempts } from '../../src/delivery/statements/settle.ts'
import { attemptIdOf } from '../../src/lib/ids.ts'
import { deleteWebhook } from '../../src/webhooks/sql.ts'
import { captureLog } from '../kit/captured-log.ts'
import { dispatcherAlone } from '../kit/composed.ts'
import { bridgeTo, serve } from '../kit/processes.ts'
import { until } from '../kit/until.ts'
import { deliveryEnvironment, deliveryTest, failedOutcome } from './support/delivery-test.ts'
import { eventIdOf, type Reply, receiverFor } from './support/receiver.ts'
import '../kit/server-limits.ts'

const masterKey = Buffer.alloc(32, 7).toString('base64')
test('a dispatcher that is killed loses nothing: its attempts read interrupted, and its lanes are taken over', async () => {
  let hang = true
  const receiver = await receiverFor(() => (hang ? new Promise<Reply>(() => {}) : {}))
  const world = await deliveryTest({ KEYHOOK_MASTER_KEY: masterKey, KEYHOOK_DELIVERY_TIMEOUT_MS: '60000' })
  const bridge = await bridgeTo(world.target)
  const environment = {
    ...deliveryEnvironment,
    KEYHOOK_DELIVERY_TIMEOUT_MS: '60000',
    KEYHOOK_MASTER_KEY: masterKey,
    DATABASE_URL: bridge.url,
    KEYHOOK_LOG_LEVEL: 'silent',
  }
  const victim = await serve(environment, ['--role', 'dispatcher', '--json'])
  await world.addWebhook(receiver.url)
  const ids = [await world.publishOne(), await world.publishOne(), await world.publishOne()]
  await until(() => receiver.received.length >= 2)
  hang = false
  victim.child.kill('SIGKILL')
  const seen = receiver.received.length
  const { log, lines } = captureLog()
  const successor = await dispatcherAlone(world, log, world.hints)
  onTestFinished(() => successor.stop())
  await until(async () => (await world.attempts()).filter((row) => row.status === 'succeeded').length === 3)
  const rows = await world.attempts()
  const logged = lines().flatMap((line) => line.deliveryId ?? [])
  const interrupted = rows.filter((row) => row.status === 'interrupted')
  const sentBySuccessor = rows.filter((row) => row.status !== 'interrupted')
  expect(sentBySuccessor.map((row) => attemptIdOf(row.id)).toSorted()).toEqual(logged.toSorted())
  expect(interrupted.length).toBeGreaterThanOrEqual(seen)
  // Every request that a receiver ever saw has a row, and the row of a request with a known outcome shows what was sent.
  expect(rows.length).toBeGreaterThanOrEqual(receiver.received.length)
  const signatures = sentBySuccessor.map((row) => readHeaders(row.request_headers)['webhook-signature'])
  for (const { headers } of receiver.received.slice(seen)) expect(signatures).toContain(headers['webhook-signature'])
  expect(interrupted[0]!.error_code).toBe('interrupted')
  expect(new Set(receiver.received.map(eventIdOf))).toEqual(new Set(ids))
})

test('two processes share the lanes, and no first attempt is made twice', async () => {
  const receiver = await receiverFor(() => ({ delayMs: 20 }))
  const world = await deliveryTest({ KEYHOOK_MASTER_KEY: masterKey })
  const bridge = await bridgeTo(world.target)
  const environment = {
    ...deliveryEnvironment,
    KEYHOOK_MASTER_KEY: masterKey,
    DATABASE_URL: bridge.url,
    // A process that a busy machine stops for longer than its lease loses its lanes, and what was in flight is sent again.
    KEYHOOK_DELIVERY_LEASE_MS: '60000',
    KEYHOOK_DELIVERY_TIMEOUT_MS: '60000',
  }
  for (let i = 0; i < 20; i++) await world.addWebhook(receiver.url)
  // Room for a few requests each, and receivers that take a while: the first process is busy until the other has started.
  const running = { ...environment, KEYHOOK_LOG_LEVEL: 'info', KEYHOOK_DELIVERY_IN_FLIGHT_MAX: '6' }
  const nodes = await Promise.all([
    serve(running, ['--role', 'dispatcher', '--json']),
    serve(running, ['--role', 'dispatcher', '--json']),
  ])
  for (let i = 0; i < 40; i++) {
    await world.publishOne()
    await sleep(10)
  }
  await until(() => receiver.received.length >= 800)
  await until(async () => (await world.attempts()).length >= 800)
  const rows = await world.attempts()
  const keys = rows.map((row) => `${row.webhook_id} ${row.event_seq} ${row.attempt}`)
  expect(new Set(keys).size).toBe(800)
  expect(receiver.received.length).toBe(800)
  const lines = nodes.map(
    (node) =>
      node
        .output()
        .stderr.split('\n')
        .filter((line) => line.includes('delivery.attempted')).length,
  )
  expect(Math.min(...lines)).toBeGreaterThan(0)
  // SIGTERM: both leave in order, and every lane is free.
  for (const node of nodes) expect((await node.stop()).code).toBe(0)
  expect(await world.db`select 1 from keyhook.lanes where lease_owner is not null`).toHaveLength(0)
})

// Invariant 4. Seen to fail when settling does not compare the lease's token.
test('only the holder of the lease settles: an outcome that comes too late changes nothing', async () => {
  const receiver = await receiverFor(() => ({ delayMs: 2_500 }))
  const world = await deliveryTest({ KEYHOOK_DELIVERY_TIMEOUT_MS: '10000', KEYHOOK_DELIVERY_RETRY_SCHEDULE: '0s' })
  await world.addWebhook(receiver.url)
  await world.startDispatcher()
  await world.publishOne()
  const [row] = await until(async () => {
    const found = await world.db<{ lane_id: string; event_seq: string; id: string; lease_token: string }[]>`
      select s.lane_id, s.event_seq, s.id, l.lease_token from keyhook.in_flight s join keyhook.lanes l on l.id = s.lane_id`
    return found.length > 0 && found
  })
  const attempt = {
    laneId: Number(row!.lane_id),
    token: Number(row!.lease_token) - 1,
    eventSeq: Number(row!.event_seq),
    attemptId: row!.id,
    attempt: 1,
    startedAtMs: Date.now(),
    tries: 0,
    version: 0,
    early: false,
    suspended: false,
  }
  const late = await settleAttempts(world.db, [{ attempt, outcome: failedOutcome, tries: 1, retryMs: null }])
  expect(late.recorded).toBe(0)
  await until(async () => (await world.attempts()).length === 1)
  expect((await world.attempts())[0]!.status).toBe('succeeded')
})

test('no attempt starts after the deletion of a webhook was answered, in any process', async () => {
  const receiver = await receiverFor(() => ({ delayMs: 3 }))
  const world = await deliveryTest()
  await world.startDispatcher()
  await world.startDispatcher()
  for (let round = 0; round < 6; round++) {
    const webhook = await world.addWebhook(receiver.url)
    for (let i = 0; i < 25; i++) await world.publishOne()
    await sleep(round * 15)
    await world.db.begin((tx) => deleteWebhook(tx, world.orgId, webhook.id))
    const [{ now } = { now: new Date() }] = await world.db<{ now: Date }[]>`select clock_timestamp() as now`
    await sleep(150)
    const later = await world.db`
      select 1 from keyhook.attempts a join keyhook.webhooks w on w.lane_id = a.lane_id
      where w.id = ${webhook.id} and a.started_at > ${now}
      union all
      select 1 from keyhook.in_flight s join keyhook.webhooks w on w.lane_id = s.lane_id where w.id = ${webhook.id}
      union all
      select 1 from keyhook.retries r join keyhook.webhooks w on w.lane_id = r.lane_id where w.id = ${webhook.id}`
    expect(later).toHaveLength(0)
  }
  await until(async () => {
    const [row] = await world.db`select count(*)::int as count from keyhook.lanes where due_at is not null`
    return row!.count === 0
  })
})

test('when PostgreSQL goes away and returns, deliveries resume by themselves', async () => {
  const receiver = await receiverFor()
  const world = await deliveryTest()
  await world.addWebhook(receiver.url)
  await world.startDispatcher()
  await world.publishOne()
  await until(() => receiver.received.length === 1)
  for (let round = 0; round < 3; round++) {
    for (let i = 0; i < 20; i++) {
      await world.publishOne()
      if (i % 5 === 0) {
        await world.db`
          select pg_terminate_backend(pid) from pg_stat_activity
          where application_name = 'keyhook dispatcher' and datname = current_database()`
      }
    }
  }
  await until(async () => new Set((await world.attempts()).map((row) => row.event_seq)).size === 61)
  expect(new Set(receiver.received.map(eventIdOf)).size).toBe(61)
})

// Seen to fail when the time of the first try is kept: receivers reject signatures that are minutes old.
test('what could not begin for a while is signed with the time at which it begins', async () => {
  const receiver = await receiverFor()
  const world = await deliveryTest({ KEYHOOK_DELIVERY_LEASE_MS: '60000' })
  await world.addWebhook(receiver.url)
  await world.db.unsafe(`
    create function refuse() returns trigger language plpgsql as $$ begin
      raise exception 'not now' using errcode = '57P03';
    end $$;
    create trigger refuse before insert on keyhook.in_flight for each row execute function refuse()`)
  await world.startDispatcher()
  await world.publishOne()
  await sleep(4_000)
  expect(receiver.received).toEqual([])
  await world.db.unsafe('drop trigger refuse on keyhook.in_flight')
  await until(() => receiver.received.length === 1)
  const [{ at, headers }] = receiver.received as [(typeof receiver.received)[number]]
  expect(at / 1_000 - Number(headers['webhook-timestamp'])).toBeLessThan(3)
})

test('SIGTERM waits for what is in flight up to its bound, then gives the lanes back at once', async () => {
  const receiver = await receiverFor((_request, count) =>
    count === 1 ? { delayMs: 300 } : new Promise<Reply>(() => {}),
  )
  const world = await deliveryTest({ KEYHOOK_DELIVERY_TIMEOUT_MS: '60000', KEYHOOK_DELIVERY_DRAIN_MS: '800' })
  await world.addWebhook(receiver.url)
  const engine = await dispatcherAlone(world, undefined, world.hints)
  await world.publishOne()
  await until(() => receiver.received.length === 1)
  await world.publishOne()
  await until(() => receiver.received.length === 2)
  const begun = Date.now()
  await engine.stop()
  expect(Date.now() - begun).toBeLessThan(30_000)
  const rows = await world.attempts()
  expect(rows.map((row) => row.status).sort()).toEqual(['interrupted', 'succeeded'])
  const lanes = await world.db`select lease_owner, due_at <= now() as due from keyhook.lanes`
  expect(lanes).toEqual([{ lease_owner: null, due: true }])
})
