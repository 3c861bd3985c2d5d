import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { leaseMsMax } from '../../src/domain/lease.ts'
import { retryMsMax } from '../../src/domain/retry-schedule.ts'
import { leaseLanes, releaseLanes } from '../../src/store/delivery/lanes.ts'
import { wakeLanes } from '../../src/store/delivery/news.ts'
import { createHousekeeping } from '../../src/webhooks/housekeeping.ts'
import { holdOpen } from '../support/hold-open.ts'
import { deliveryEnvironment, deliveryTest, until } from './support/delivery-test.ts'
import { eventIdOf, receiverFor } from './support/receiver.ts'

/** As a dispatcher does every five minutes. Says how many lanes there were whose time was wrong. */
async function mendTimes(db: Database): Promise<number> {
  let found = 0
  const failures: unknown[] = []
  await createHousekeeping({
    db,
    retentionDays: null,
    leaseMs: Number(deliveryEnvironment.KEYHOOK_DELIVERY_LEASE_MS),
    now: Date.now,
    hint() {},
    onClockSetBack(lanes) {
      found += lanes
    },
    onError: (error) => failures.push(error),
  }).mendTimes()
  expect(failures).toEqual([])
  return found
}

/** What was written of lanes was written by a clock that was a year ahead. */
const wasAhead = (db: Database) => db`update keyhook.lanes set due_at = due_at + interval '1 year'`

/** A lane with one delivery, that a dispatcher has taken which is no more. */
async function orphanedLane() {
  const world = await deliveryTest()
  const receiver = await receiverFor()
  await world.addWebhook(receiver.url)
  await world.publishOne()
  await wakeLanes(world.db, 10)
  const [lane] = await leaseLanes(world.db, { owner: 'dead', lanesMax: 1, leaseMs: 1_000 })
  return { world, receiver, lane: lane! }
}
type Orphaned = Awaited<ReturnType<typeof orphanedLane>>

// Seen to fail without: nothing arrives for a year.
test.each<[string, (orphaned: Orphaned) => Promise<unknown>]>([
  ['died', async () => {}],
  [
    'stopped',
    ({ world, lane: { laneId, token } }) =>
      releaseLanes(world.db, [{ laneId, token, asked: 0, begunNo: 0, settled: true, abandon: true }]),
  ],
])(
  'a webhook whose dispatcher %s while the clock was ahead gets its deliveries once it is right',
  async (_how, end) => {
    const orphaned = await orphanedLane()
    const { world, receiver } = orphaned
    await end(orphaned)
    await wasAhead(world.db)
    await world.startDispatcher()
    await sleep(1_500)
    expect(receiver.received).toHaveLength(0)
    expect(await mendTimes(world.db)).toBe(1)
    await until(() => receiver.received.length === 1, 'the delivery')
    expect(await mendTimes(world.db)).toBe(0)
  },
)

// Seen to fail when leased lanes are made due at once: the other dispatcher sends it again.
test('a dispatcher that is alive loses no lane when the clock is set back', async () => {
  const world = await deliveryTest({ KEYHOOK_DELIVERY_TIMEOUT_MS: '10000' })
  const receiver = await receiverFor(() => ({ delayMs: 3_500 }))
  await world.addWebhook(receiver.url)
  await world.startDispatcher()
  await world.startDispatcher()
  await world.publishOne()
  await until(() => receiver.received.length === 1, 'the request')
  await until(async () => {
    await wasAhead(world.db)
    // Unless it has been renewed in between.
    return (await mendTimes(world.db)) === 1
  })
  await until(async () => (await world.attempts()).length > 0, 'its outcome')
  await sleep(500)
  expect((await world.attempts()).map((one) => one.status)).toEqual(['succeeded'])
  expect(receiver.received).toHaveLength(1)
})

// Seen to fail without: the event that comes in between arrives, and nothing else does.
test.each(['free', 'busy'])(
  'a retry that was put in line while the clock was ahead is sent (its lane is %s)',
  async (how) => {
    const world = await deliveryTest({ KEYHOOK_DELIVERY_RETRY_SCHEDULE: '0s,1h' })
    const receiver = await receiverFor((_request, count) => ({ status: count === 1 ? 500 : 200 }))
    await world.addWebhook(receiver.url)
    await world.startDispatcher()
    const refused = await world.publishOne()
    const isFree = async () =>
      (await world.db`select from keyhook.lanes where lease_owner is null and due_at > now()`)[0]
    await until(isFree, 'the lane to be free')
    await world.db`update keyhook.retries set due_at = due_at + interval '1 year'`
    await wasAhead(world.db)
    await world.publishOne()
    await until(() => receiver.received.length === 2, 'another event')
    if (how === 'free') await until(isFree, 'the lane to be free again')
    expect(await mendTimes(world.db)).toBe(1)
    await until(() => receiver.received.length === 3, 'the retry')
    expect(eventIdOf(receiver.received[2]!)).toBe(refused)
    await until(async () => (await world.attempts()).length === 3, 'its outcome')
    expect(await world.db`select from keyhook.retries`).toHaveLength(0)
  },
)

test('a free lane that waits for a retry until next year, although none waits so long, is due', async () => {
  const { world, receiver } = await orphanedLane()
  await world.db`
    update keyhook.lanes set lease_owner = null, cursor_seq = head_seq, asked = 1, due_at = now() + interval '1 year'`
  await world.db`insert into keyhook.retries select org_id, id, 1, now(), 1, 0 from keyhook.lanes`
  await world.startDispatcher()
  expect(await mendTimes(world.db)).toBe(1)
  await until(() => receiver.received.length === 1, 'the retry')
})

test('the longest lease there is, the longest wait for a retry, and a lane that somebody has locked are left as they are', async () => {
  const { world } = await orphanedLane()
  const { db } = world
  const dueAt = async () => (await db`select due_at from keyhook.lanes`)[0]!.due_at
  const leftAlone = async () => {
    const before = await dueAt()
    expect(await mendTimes(db)).toBe(0)
    expect(await dueAt()).toEqual(before)
  }
  await db`update keyhook.lanes set due_at = now()`
  await leaseLanes(db, { owner: 'slow', lanesMax: 1, leaseMs: leaseMsMax })
  await leftAlone()
  await wasAhead(db)
  const unlock = await holdOpen(db, (tx) => tx`select from keyhook.lanes for update`)
  await leftAlone()
  await unlock()
  await db`update keyhook.lanes set lease_owner = null, cursor_seq = head_seq, due_at = now() + ${retryMsMax} * interval '1 millisecond'`
  await db`insert into keyhook.retries select org_id, id, 1, due_at, 1, 1 from keyhook.lanes`
  await leftAlone()
})
