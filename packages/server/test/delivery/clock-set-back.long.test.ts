import { expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { pauseLane } from '../../src/delivery/lane-sql.ts'
import { createMaintenance } from '../../src/delivery/maintenance.ts'
import { leaseMsMax, retryMsMax } from '../../src/delivery/retry-schedule.ts'
import { fetchDue } from '../../src/delivery/statements/fetch.ts'
import { releaseLanes } from '../../src/delivery/statements/held-lanes.ts'
import { deleteWebhook } from '../../src/webhooks/sql.ts'
import { holdOpen } from '../kit/hold-open.ts'
import { until } from '../kit/until.ts'
import { deliveryTest } from './support/delivery-test.ts'
import { begin, deliverDue, lease, leasedLane, leaseMs, settleFailed, wake } from './support/leased-lane.ts'
import { receiverFor } from './support/receiver.ts'

/** What a dispatcher does every hour. Returns how many lanes had a wrong time. */
async function runHourly(db: Database): Promise<number> {
  let found = 0
  const failures: unknown[] = []
  await createMaintenance({
    db,
    retentionDays: null,
    leaseMs,
    now: Date.now,
    hint() {},
    onClockSetBack(lanes) {
      found += lanes
    },
    onError: (error) => failures.push(error),
  }).hourly()
  expect(failures).toEqual([])
  return found
}

/** The lanes were written while PostgreSQL's clock was a year ahead. */
const wasAhead = (db: Database) => db`update keyhook.lanes set due_at = due_at + interval '1 year'`

type Leased = Awaited<ReturnType<typeof leasedLane>>
const abandon = ({ db, held }: Leased) => releaseLanes(db, [{ ...held, abandon: true }])

test.each<[string, (leased: Leased) => Promise<unknown>, number]>([
  ['dispatcher died', async () => {}, leaseMs],
  ['dispatcher stopped', abandon, 0],
  [
    'dispatcher stopped with an attempt in flight',
    async (leased) => {
      await begin(leased.db, leased.first)
      await abandon(leased)
    },
    0,
  ],
  [
    'webhook was deleted with an attempt in flight',
    async (leased) => {
      await begin(leased.db, leased.first)
      await abandon(leased)
      await leased.db.begin((tx) => deleteWebhook(tx, leased.world.orgId, leased.webhook.id))
    },
    0,
  ],
])('a lane whose %s while the clock was ahead is leased once the clock is right', async (_how, end, dueInMs) => {
  const leased = await leasedLane()
  const { db } = leased
  await end(leased)
  await wasAhead(db)
  expect(await lease(db)).toEqual([])
  expect(await runHourly(db)).toBe(1)
  expect(await runHourly(db)).toBe(0)
  // A dispatcher that is alive renews the lease in that time; the lane of a dead one becomes due.
  await db`update keyhook.lanes set due_at = due_at - ${dueInMs} * interval '1 millisecond'`
  expect(await lease(db)).toHaveLength(1)
})

test('a running dispatcher loses no lane when the clock is set back', async () => {
  const world = await deliveryTest({ KEYHOOK_DELIVERY_TIMEOUT_MS: '10000' })
  const receiver = await receiverFor(() => ({ delayMs: 3_500 }))
  await world.addWebhook(receiver.url)
  await world.startDispatcher()
  await world.startDispatcher()
  await world.publishOne()
  await until(() => receiver.received.length === 1)
  await until(async () => {
    await wasAhead(world.db)
    // Zero when the lease was renewed in between.
    return (await runHourly(world.db)) === 1
  })
  await until(async () => (await world.db`select from keyhook.lanes where due_at is null`).length === 1)
  expect((await world.attempts()).map((one) => one.status)).toEqual(['succeeded'])
  expect(receiver.received).toHaveLength(1)
})

test.each(['free', 'leased'])('a retry written while the clock was ahead is sent (its lane is %s)', async (state) => {
  const { world, db, first, held } = await leasedLane()
  await begin(db, first)
  await settleFailed(db, first, 3_600_000)
  await db`update keyhook.retries set due_at = due_at + interval '1 year'`
  if (state === 'free') {
    expect(await releaseLanes(db, [held])).toEqual([held.laneId])
    expect(await runHourly(db)).toBe(1)
    await deliverDue(db)
    expect((await world.attempts()).map((one) => one.status)).toEqual(['failed', 'succeeded'])
    return
  }
  expect(await runHourly(db)).toBe(1)
  // The holder is not asked to release the lane without having looked for retries.
  expect(await releaseLanes(db, [held])).toEqual([])
  const request = {
    laneId: held.laneId,
    orgId: world.orgId,
    afterSeq: 1,
    firstsMax: 10,
    retriesMax: 10,
    suspended: false,
  }
  expect(await fetchDue(db, [request])).toMatchObject([{ eventSeq: 1, attempts: 1 }])
})

test('a free lane that is due next year, although its retry is due now, is corrected', async () => {
  const { world, db, first, held } = await leasedLane()
  await begin(db, first)
  await settleFailed(db, first)
  await releaseLanes(db, [held])
  await wasAhead(db)
  expect(await runHourly(db)).toBe(1)
  await deliverDue(db)
  expect((await world.attempts()).map((one) => one.status)).toEqual(['failed', 'succeeded'])
})

test('the longest lease, the longest wait for a retry, and locked lanes are left alone', async () => {
  const { db, first, world } = await leasedLane()
  const dueAt = async () => (await db`select due_at from keyhook.lanes`)[0]!.due_at
  const expectLeftAlone = async () => {
    const before = await dueAt()
    expect(await runHourly(db)).toBe(0)
    expect(await dueAt()).toEqual(before)
  }
  await db`update keyhook.lanes set due_at = now()`
  await lease(db, { leaseMs: leaseMsMax })
  await expectLeftAlone()
  await wasAhead(db)
  const unlock = await holdOpen(db, (tx) => tx`select from keyhook.lanes for update`)
  await expectLeftAlone()
  await unlock()
  await db`
    update keyhook.lanes
    set lease_owner = null, cursor_seq = head_seq, due_at = now() + ${retryMsMax} * interval '1 millisecond'`
  await db`
    insert into keyhook.retries (lane_id, event_seq, org_id, due_at, attempt, try)
    select ${first.laneId}, 1, ${world.orgId}, due_at, 1, 1 from keyhook.lanes`
  await expectLeftAlone()
})

test('the lane of a dispatcher that died while the clock was ahead is delivered by another', async () => {
  const world = await deliveryTest()
  const receiver = await receiverFor()
  await world.addWebhook(receiver.url)
  await world.publishOne()
  await wake(world.db)
  await lease(world.db, { owner: 'dead' })
  await wasAhead(world.db)
  // It runs what is done every hour when it starts.
  await world.startDispatcher()
  await until(() => receiver.received.length === 1)
  await until(async () => (await world.attempts()).length === 1)
  expect((await world.attempts())[0]!.status).toBe('succeeded')
})

test('a paused lane waits until its pause ends, but not until one that was set while the clock was ahead', async () => {
  const leased = await leasedLane()
  const { db, world, webhook } = leased
  await abandon(leased)
  const pause = (days: number) =>
    db.begin((tx) => pauseLane(tx, world.orgId, webhook.id, new Date(Date.now() + days * 86_400_000)))
  await pause(29)
  expect(await runHourly(db)).toBe(0)
  expect(await lease(db)).toEqual([])
  await pause(365)
  expect(await runHourly(db)).toBe(1)
  expect(await lease(db)).toMatchObject([{ paused: false }])
})
