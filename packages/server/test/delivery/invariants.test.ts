import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { connect } from '../../src/db/database.ts'
import { startEngine } from '../../src/delivery/engine.ts'
import { redeliver } from '../../src/delivery/redelivery-sql.ts'
import type { WebhookId } from '../../src/lib/ids.ts'
import { readNetwork } from '../../src/lib/network.ts'
import { deleteWebhook } from '../../src/webhooks/sql.ts'
import { call } from '../kit/client.ts'
import { apiAlone } from '../kit/composed.ts'
import { until } from '../kit/until.ts'
import { deliveryTest } from './support/delivery-test.ts'
import { findLostDeliveries } from './support/lost-deliveries.ts'
import { caFile, type Reply, receiverFor } from './support/receiver.ts'

const silent = pino({ level: 'silent' })

/*
 * Invariant 5. Fails when a lane is released with `due_at` null, when a lane is woken without `due_at`, and when a redelivery
 * does not make its lane due.
 */
test('a delivery that is not finished is due at some time, at every moment', async () => {
  const world = await deliveryTest({ KEYHOOK_DELIVERY_RETRY_SCHEDULE: '0s,3s', KEYHOOK_DELIVERY_LEASE_MS: '500' })
  let count = 0
  const receiver = await receiverFor(() => ({ status: ++count % 3 === 0 ? 500 : 200, delayMs: count % 7 }))
  const webhooks: { id: WebhookId }[] = []
  for (let i = 0; i < 5; i++) webhooks.push(await world.addWebhook(receiver.url))
  let engine = await world.startDispatcher()
  await world.startDispatcher()
  let isOver = false
  const found: unknown[] = []
  const watching = (async () => {
    while (!isOver && found.length === 0) {
      found.push(...(await findLostDeliveries(world.db)))
      await sleep(3)
    }
  })()
  for (let i = 0; i < 60; i++) {
    await world.publishOne()
    if (i % 20 === 10) {
      await engine.stop()
      engine = await world.startDispatcher()
    }
    if (i === 30) await world.db.begin((tx) => deleteWebhook(tx, world.orgId, webhooks[0]!.id))
    const [attempt] = await world.db<{ id: string }[]>`select id from keyhook.attempts order by random() limit 1`
    if (i % 5 === 0 && attempt) {
      for (const { id } of webhooks) await world.db.begin((tx) => redeliver(tx, world.orgId, id, attempt.id))
    }
    await sleep(i % 4)
  }
  /** Everything is finished and no lane is leased. */
  const rest = () =>
    until(async () => {
      const busy = await world.db`
        select 1 from keyhook.lanes where ended_at is null and (cursor_seq < 60 or due_at is not null)`
      return found.length > 0 || busy.length === 0
    })
  await rest()
  const [last] = await world.db<{ id: string; webhook_id: WebhookId }[]>`
    select a.id, l.webhook_id from keyhook.attempts a join keyhook.lanes l on l.id = a.lane_id and l.ended_at is null
    limit 1`
  const before = receiver.received.length
  await world.db.begin((tx) => redeliver(tx, world.orgId, last!.webhook_id, last!.id))
  await until(() => found.length > 0 || receiver.received.length > before)
  await rest()
  isOver = true
  await watching
  expect(found).toEqual([])
})

/*
 * Invariant 7. Fails when a transaction is opened before a request and committed after its answer: with one connection nothing
 * else can be delivered, and the session is `idle in transaction`.
 */
test('no connection is held across a request: with one connection, receivers that hang hold up no others', async () => {
  const world = await deliveryTest()
  const hanging = await receiverFor(() => new Promise<Reply>(() => {}))
  const healthy = await receiverFor()
  const sick = await world.organization('Sick')
  for (let i = 0; i < 10; i++) await world.addWebhook(hanging.url, { org: sick })
  await world.addWebhook(healthy.url)
  const only = connect(world.target, { name: 'keyhook only', connectionsMax: 1 })
  onTestFinished(() => only.end({ timeout: 5 }))
  const engine = await startEngine({
    db: only,
    masterKeys: world.masterKeys,
    settings: {
      sender: {
        serviceName: 'Service',
        standardWebhooks: true,
        allowNetworks: [readNetwork('127.0.0.0/8')!],
        extraCa: readFileSync(caFile, 'utf8'),
        limits: {
          attemptMsMax: 60_000,
          connectMsMax: 5_000,
          responseKeptBytesMax: 1_024,
          responseBytesMax: 65_536,
          responseHeaderBytesMax: 16_384,
          idleMax: 1_000,
        },
      },
      schedule: [0],
      retentionDays: null,
      limits: {
        inFlightMax: 1_000,
        lanesMax: 1_000,
        laneConcurrencyMax: 8,
        leaseMs: 2_000,
        probeMs: 3_600_000,
        pollMs: 50,
        drainMsMax: 0,
      },
    },
    hints: world.hints,
    log: silent,
    observe: { attempted() {}, batch() {} },
  })
  onTestFinished(() => engine.stop())
  await world.publishOne(sick)
  await until(() => hanging.received.length === 10)
  // The API, on the same single connection.
  const shared = { ...world, db: only }
  const api = apiAlone(shared)
  onTestFinished(() => api.close())
  const url = await api.app.listen({ host: '127.0.0.1', port: 0 })
  for (let i = 0; i < 20; i++) {
    await world.publishOne()
    const path = `/api/v1/organizations/${world.orgId}/webhooks`
    expect((await call(`${url}${path}`, { token: world.owner.token })).status).toBe(200)
    const held = await world.db`
      select state, query from pg_stat_activity
      where application_name = 'keyhook only' and datname = current_database() and state like 'idle in transaction%'
        and state_change < now() - interval '1 second'`
    expect(held).toEqual([])
  }
  await until(() => healthy.received.length === 20)
  expect(engine.inFlight).toBeGreaterThanOrEqual(10)
})
