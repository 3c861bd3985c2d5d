import { expect, test } from 'vitest'
import { enableOptionalTypes } from '../../src/delivery/event-types.ts'
import { pauseLane, resumeLane } from '../../src/delivery/lane-sql.ts'
import type { OptionalType } from '../../src/delivery/optional-types.ts'
import { publishSample } from '../../src/delivery/publish.ts'
import { redeliver } from '../../src/delivery/redelivery-sql.ts'
import { settleAttempts } from '../../src/delivery/statements/settle.ts'
import { webhookRecordOf } from '../../src/webhooks/schemas.ts'
import { findWebhookRecord, lockWebhook, updateWebhook } from '../../src/webhooks/sql.ts'
import { dispatcherAlone } from '../kit/composed.ts'
import { bridgeTo, serve } from '../kit/processes.ts'
import { until } from '../kit/until.ts'
import { deliveryEnvironment, deliveryTest, failedOutcome } from './support/delivery-test.ts'
import { begin, firstAttempt, leasedLane } from './support/leased-lane.ts'
import { findLostDeliveries } from './support/lost-deliveries.ts'
import { eventIdOf, type Reply, receiverFor } from './support/receiver.ts'
import { passHours, runHealthWorkers, suspendWebhooks } from './support/suspension.ts'
import '../kit/server-limits.ts'

/** A webhook whose receiver answers 503 until `repair`. Retries are due in ten hours. */
async function failingWebhook(environment: Record<string, string> = {}) {
  let answer: (count: number) => Reply | Promise<Reply> = () => ({ status: 503 })
  const receiver = await receiverFor((_request, count) => answer(count))
  const world = await deliveryTest({ KEYHOOK_DELIVERY_RETRY_SCHEDULE: '0s,10h,10h', ...environment })
  const { db, orgId, transact } = world
  const { id } = await world.addWebhook(receiver.url)
  const show = async () => webhookRecordOf((await findWebhookRecord(db, orgId, id, Date.now()))!)
  const statuses = async () => (await world.attempts()).map(({ event_seq, status }) => `${event_seq} ${status}`)
  const settled = (count: number) => until(async () => (await world.attempts()).length === count)
  return {
    ...world,
    id,
    receiver,
    show,
    statuses,
    settled,
    /** The suspension has ended: a worker of some node has seen the success. */
    recovered: () =>
      until(async () => {
        await runHealthWorkers(transact)
        return (await show()).status === 'active'
      }),
    repair: (reply: typeof answer = () => ({})) => {
      answer = reply
    },
    async publishMany(count: number): Promise<string[]> {
      const ids: string[] = []
      for (let i = 0; i < count; i++) ids.push(await world.publishOne())
      return ids
    },
    async suspend(): Promise<void> {
      await suspendWebhooks(db, transact)
      expect((await show()).status).toBe('suspended')
    },
    change: (url: string) =>
      transact(async (tx) => {
        const before = (await lockWebhook(tx, orgId, id))!
        await updateWebhook(tx, orgId, id, before, { ...before, url })
        tx.hintAfterCommit(orgId)
      }),
    test: () => transact((tx) => publishSample(tx, { orgId, webhookId: id }, { type: 'database.created', data: {} })),
    async redeliver(attempt = 0): Promise<void> {
      const { id: attemptId } = (await world.attempts())[attempt]!
      await transact(async (tx) => {
        expect(await redeliver(tx, orgId, id, attemptId)).toBe('requested')
        tx.hintAfterCommit(orgId)
      })
    },
  }
}

test('the third failure in a row makes a webhook failing, and a success ends it; each is told once, to others only', async () => {
  const world = await failingWebhook()
  const { db, transact } = world
  const told = await receiverFor()
  const types: OptionalType[] = ['webhook.failing', 'webhook.recovered']
  await enableOptionalTypes(db, types)
  await world.addWebhook(told.url, { types })
  await db`update keyhook.webhooks set event_types = event_types || ${types}::text[] where id = ${world.id}`
  await world.startDispatcher()
  await world.publishMany(2)
  await world.settled(2)
  expect(await world.show()).toMatchObject({ status: 'active', failing_since: null })
  const ids = await world.publishMany(3)
  await world.settled(5)
  expect(await world.show()).toMatchObject({
    status: 'failing',
    failing_since: expect.any(String),
    suspended_until: null,
  })
  await runHealthWorkers(transact)
  await until(() => told.received.length === 1)
  world.repair()
  await world.publishOne()
  await until(async () => (await world.show()).status === 'active')
  await runHealthWorkers(transact)
  await until(() => told.received.length === 2)
  const bodies = told.received.map(({ body }) => JSON.parse(body.toString()))
  expect(bodies.map(({ type }) => type)).toEqual(types)
  expect(bodies[0].data).toMatchObject({ webhook_id: world.id, url: world.receiver.url, error: 'HTTP 503' })
  expect(bodies[1].data.failing_since).toBe(bodies[0].data.failing_since)
  expect(world.receiver.received.some(({ body }) => body.includes('webhook.'))).toBe(false)
  expect(ids).toHaveLength(3)
  expect(await db`select from keyhook.webhook_changes`).toHaveLength(0)
})

test('what is our fault does not make a webhook fail', async () => {
  const { db, lane } = await leasedLane()
  const outcomes = [
    ['failed', 'timeout'],
    ['failed', 'sender_exhausted'],
    ['interrupted', 'interrupted'],
    ['failed', 'timeout'],
    ['failed', 'timeout'],
  ] as const
  const failures: number[] = []
  for (const [i, [status, code]] of outcomes.entries()) {
    const attempt = firstAttempt(lane, i + 1)
    await begin(db, attempt)
    const outcome = { ...failedOutcome, status, error: { code, detail: null } }
    await settleAttempts(db, [{ attempt, outcome, tries: 1, retryMs: null }])
    const [row] = await db<{ failures: number }[]>`select failures from keyhook.lanes`
    failures.push(row!.failures)
  }
  expect(failures).toEqual([1, 1, 1, 2, 3])
  expect(await db`select kind, error from keyhook.webhook_changes`).toEqual([{ kind: 'failing', error: 'timeout' }])
})

test('an outcome that changes whether a webhook fails waits for the lock of its lane, alone', async () => {
  const { db, lane, first } = await leasedLane()
  await begin(db, first)
  const settle = () => settleAttempts(db, [{ attempt: first, outcome: failedOutcome, tries: 1, retryMs: null }])
  await db.begin(async (tx) => {
    await tx`select from keyhook.lanes where id = ${lane.laneId} for update`
    expect(await settle()).toEqual({ recorded: 0, postponed: new Set([first.attemptId]) })
  })
  expect(await settle()).toEqual({ recorded: 1, postponed: new Set() })
})

test('a suspended webhook is tried every hour, which spends no try, and the first success sends what waited in order', async () => {
  const world = await failingWebhook()
  const { db } = world
  await world.startDispatcher()
  const first = await world.publishMany(20)
  await world.settled(20)
  await world.suspend()
  const waiting = await world.publishMany(40)
  for (let hour = 1; hour <= 3; hour++) {
    await until(async () => (await db`select from keyhook.lanes where lease_owner is not null`).length === 0)
    expect(await findLostDeliveries(db)).toEqual([])
    expect((await world.show()).health.next_attempt_at).not.toBeNull()
    expect(await world.attempts()).toHaveLength(19 + hour)
    await passHours(db, 1)
    await world.settled(20 + hour)
  }
  expect(await db`select distinct try from keyhook.retries`).toEqual([{ try: 1 }])
  // By their schedule the newest would be first, and none is due.
  await db`update keyhook.retries set due_at = now() + make_interval(hours => 100 - event_seq::int)`
  world.repair()
  await passHours(db, 1)
  await world.recovered()
  const sent = () => world.receiver.received.slice(23).map(eventIdOf)
  await until(() => sent().length === 60)
  // In the order in which they began; requests that are under way together may arrive in another.
  await world.settled(23 + 60)
  const [probe, ...others] = (await world.attempts()).slice(23)
  expect(probe).toMatchObject({ event_seq: 20, status: 'succeeded' })
  const order = others.map(({ event_seq }) => event_seq)
  expect(order).toEqual([
    ...Array.from({ length: 19 }, (_, i) => i + 1),
    ...Array.from({ length: 40 }, (_, i) => i + 21),
  ])
  expect(new Set(sent())).toEqual(new Set([...first, ...waiting]))
})

test('a test event and a redelivery are sent at once while a webhook is suspended, and each can end it', async () => {
  for (const kind of ['test', 'redeliver'] as const) {
    const world = await failingWebhook()
    await world.startDispatcher()
    await world.publishMany(3)
    await world.settled(3)
    await world.suspend()
    const waiting = await world.publishMany(5)
    await world[kind]()
    await world.settled(4)
    expect((await world.show()).status).toBe('suspended')
    world.repair()
    await world[kind]()
    await world.recovered()
    await until(() => waiting.every((id) => world.receiver.received.some((one) => eventIdOf(one) === id)))
  }
})

test('a webhook whose retries cannot be made due goes on by their schedule, and keeps no other from being resumed', async () => {
  const world = await failingWebhook()
  const { db, orgId, transact } = world
  const other = await world.addWebhook(world.receiver.url)
  await world.startDispatcher()
  await world.publishMany(3)
  await world.settled(6)
  await world.suspend()
  world.repair()
  await db`update keyhook.retries set due_at = now() + interval '9 hours'`
  // The first in line is the one that cannot be resumed.
  await db`update keyhook.lanes set resumes = true, failing_since = failing_since - (case when webhook_id = ${world.id} then 1 else 0 end) * interval '1 hour'`
  await db.unsafe(`
    create function refuse() returns trigger language plpgsql as $$ begin raise 'statement timeout'; end $$;
    create trigger refuse before update on keyhook.retries for each row when (
      old.lane_id = ${(await db`select lane_id from keyhook.webhooks where id = ${world.id}`)[0]!.lane_id}
    ) execute function refuse()`)
  const errors: string[] = []
  await until(async () => {
    await runHealthWorkers(transact).catch((error) => errors.push(String(error)))
    const found = await findWebhookRecord(db, orgId, other.id, Date.now())
    return (await world.show()).status === 'active' && webhookRecordOf(found!).status === 'active'
  })
  expect(errors).toContainEqual(expect.stringContaining('statement timeout'))
  await until(() => world.receiver.received.length === 6 + 3)
  expect(await db`select from keyhook.retries where due_at > now() + interval '8 hours'`).toHaveLength(3)
})

test('a suspended webhook with a new URL is tried there at once, and suspended until it answers', async () => {
  const world = await failingWebhook()
  const { db } = world
  const [wrong, right] = [await receiverFor(() => ({ status: 404 })), await receiverFor()]
  await world.startDispatcher()
  await world.publishMany(3)
  await world.settled(3)
  await world.suspend()
  await world.publishMany(2)
  await until(async () => (await db`select from keyhook.lanes where lease_owner is not null`).length === 0)
  await world.change(wrong.url)
  await world.settled(4)
  expect(wrong.received).toHaveLength(1)
  const { status, health } = await world.show()
  expect(status).toBe('suspended')
  expect(Date.parse(health.next_attempt_at!)).toBeGreaterThan(Date.now() + 3_000_000)
  await world.change(right.url)
  await world.recovered()
  await until(() => new Set(right.received.map(eventIdOf)).size === 5)
  expect(world.receiver.received).toHaveLength(3)
})

test('a paused webhook gets nothing, suspended or not, and stays suspended afterwards', async () => {
  const world = await failingWebhook()
  const { db, orgId, id, transact } = world
  await world.startDispatcher()
  await world.publishMany(3)
  await world.settled(3)
  await world.suspend()
  await db.begin((tx) => pauseLane(tx, orgId, id, new Date(Date.now() + 3_600_000)))
  await db`update keyhook.lanes set probe_at = now()`
  await world.test()
  await until(async () => (await db`select from keyhook.lanes where lease_owner is not null`).length === 0)
  expect(await world.show()).toMatchObject({ status: 'paused' })
  expect(await world.attempts()).toHaveLength(3)
  await transact(async (tx) => {
    await resumeLane(tx, orgId, id)
    tx.hintAfterCommit(orgId)
  })
  await world.settled(5)
  expect((await world.show()).status).toBe('suspended')
})

test('after 30 days without a success the schedule goes on, and deliveries end', async () => {
  const world = await failingWebhook({ KEYHOOK_DELIVERY_RETRY_SCHEDULE: '0s,1s' })
  const { db, transact } = world
  await world.startDispatcher()
  await world.publishMany(3)
  await until(async () => (await world.attempts()).length === 6)
  await world.suspend()
  await world.publishMany(4)
  await passHours(db, 30 * 24)
  await until(async () => (await world.attempts()).length === 14)
  await runHealthWorkers(transact)
  expect(await world.show()).toMatchObject({ status: 'failing', health: { next_attempt_at: null } })
  expect(await db`select from keyhook.retries`).toHaveLength(0)
})

test('an organization chooses when its webhooks are suspended, or never', async () => {
  const world = await failingWebhook()
  const { db, transact } = world
  await world.startDispatcher()
  await world.publishMany(3)
  await world.settled(3)
  const statusAfter = async (hours: number | null, suspendAfterHours: number) => {
    await db`update keyhook.organizations set suspend_after_hours = ${hours}`
    await runHealthWorkers(transact, { suspendAfterHours })
    return (await world.show()).status
  }
  await passHours(db, 5)
  expect(await statusAfter(null, 24)).toBe('failing')
  expect(await statusAfter(6, 4)).toBe('failing')
  expect(await statusAfter(0, 4)).toBe('failing')
  expect(await statusAfter(null, 0)).toBe('failing')
  expect(await statusAfter(5, 0)).toBe('suspended')
})

const masterKey = Buffer.alloc(32, 7).toString('base64')

/** A suspended webhook whose receiver hangs, and the process of its dispatcher, to be killed. */
async function hangingWebhook() {
  const world = await failingWebhook({ KEYHOOK_MASTER_KEY: masterKey, KEYHOOK_DELIVERY_TIMEOUT_MS: '60000' })
  const before = await dispatcherAlone(world, undefined, world.hints)
  await world.publishMany(3)
  await world.settled(3)
  await before.stop()
  await world.suspend()
  world.repair(() => new Promise<Reply>(() => {}))
  const bridge = await bridgeTo(world.target)
  const environment = {
    ...deliveryEnvironment,
    KEYHOOK_DELIVERY_TIMEOUT_MS: '60000',
    KEYHOOK_MASTER_KEY: masterKey,
    DATABASE_URL: bridge.url,
    KEYHOOK_LOG_LEVEL: 'silent',
  }
  return { ...world, victim: await serve(environment, ['--role', 'dispatcher', '--json']) }
}

test('a test event and a redelivery that are interrupted while a webhook is suspended are sent again at once', async () => {
  const world = await hangingWebhook()
  await world.test()
  await world.redeliver()
  await until(() => world.receiver.received.length === 5)
  world.victim.child.kill('SIGKILL')
  const successor = await dispatcherAlone(world, undefined, world.hints)
  await until(() => world.receiver.received.length === 7)
  await successor.stop()
  world.repair()
  await world.startDispatcher()
  const outcomes = async (redelivered: boolean) => {
    const { event_seq } = (await world.attempts()).slice(3).find((one) => one.redelivered === redelivered)!
    const rows = (await world.attempts()).slice(3).filter((one) => one.event_seq === event_seq)
    return rows.map((one) => `${one.status} ${one.redelivered}`)
  }
  for (const redelivered of [true, false]) {
    await until(async () => (await outcomes(redelivered)).length === 3)
    const expected = ['interrupted', 'interrupted', 'succeeded'].map((status) => `${status} ${redelivered}`)
    expect(await outcomes(redelivered)).toEqual(expected)
  }
})

test('a dispatcher that is killed while it tries a suspended webhook leaves it suspended, and nothing is lost', async () => {
  const world = await hangingWebhook()
  const { db, victim } = world
  const waiting = await world.publishMany(5)
  await passHours(db, 1)
  await until(() => world.receiver.received.length === 4)
  victim.child.kill('SIGKILL')
  world.repair(() => ({ status: 503 }))
  await world.startDispatcher()
  await until(async () => (await world.statuses()).some((one) => one.endsWith('interrupted')))
  await until(async () => (await db`select from keyhook.lanes where lease_owner is not null`).length === 0)
  expect((await world.show()).status).toBe('suspended')
  expect(world.receiver.received).toHaveLength(4)
  expect(await findLostDeliveries(db)).toEqual([])
  world.repair()
  await passHours(db, 1)
  await world.recovered()
  await until(() => waiting.every((id) => world.receiver.received.some((one) => eventIdOf(one) === id)))
})
