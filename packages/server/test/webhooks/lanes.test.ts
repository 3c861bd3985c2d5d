import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { uuid7 } from '../../src/kernel/uuid7.ts'
import { settleAttempts } from '../../src/store/delivery/attempts.ts'
import { type BegunAttempt, beginAttempts, findLeftovers } from '../../src/store/delivery/beginnings.ts'
import { askLane, leaseLanes, releaseLanes, renewLanes } from '../../src/store/delivery/lanes.ts'
import { wakeLanes } from '../../src/store/delivery/news.ts'
import { ensurePartitions } from '../../src/store/delivery/partitions.ts'
import { redeliver } from '../../src/store/delivery/redeliveries.ts'
import { deleteWebhook } from '../../src/store/webhooks.ts'
import { publish } from '../../src/webhooks/publish.ts'
import { holdOpen } from '../support/hold-open.ts'
import { deliveryTest, failedSilently, until } from './support/delivery-test.ts'
import { receiverFor } from './support/receiver.ts'

/** A lane with one delivery, leased by us; no dispatcher runs. */
async function leasedLane() {
  const world = await deliveryTest()
  const webhook = await world.addWebhook('https://example.com/')
  await world.publishOne()
  await wakeLanes(world.db, 10)
  const [lane] = await leaseLanes(world.db, { owner: 'a', lanesMax: 10, leaseMs: 60_000 })
  const first: BegunAttempt = {
    laneId: lane!.laneId,
    token: lane!.token,
    eventSeq: 1,
    attempt: 1,
    tries: 0,
    attemptId: uuid7(Date.now()),
    startedAtMs: Date.now(),
    begunNo: 1,
    line: null,
  }
  const held = {
    laneId: lane!.laneId,
    token: lane!.token,
    asked: lane!.asked,
    begunNo: 1,
    settled: true,
    abandon: false,
  }
  return { world, webhook, lane: lane!, first, held }
}

const leaseMs = 60_000

const begin = (db: Database, attempt: BegunAttempt, no = 1) => {
  const { laneId, token } = attempt
  return beginAttempts(db, [{ laneId, token, no, fresh: [attempt], unsettled: [attempt], surmised: null }], leaseMs)
}

test('a lease that is held is not given to a second dispatcher; one that has run out is, with a higher token', async () => {
  const { world, lane } = await leasedLane()
  const lease = () => leaseLanes(world.db, { owner: 'b', lanesMax: 10, leaseMs: 60_000 })
  expect(await lease()).toEqual([])
  await world.db`update keyhook.lanes set due_at = now() - interval '1 second'`
  const [taken] = await lease()
  expect(taken!.laneId).toBe(lane.laneId)
  expect(taken!.token).toBeGreaterThan(lane.token)
})

test('a lease that a crash of the server takes back is not given again under the same token', async () => {
  const { world, lane, first } = await leasedLane()
  // What the row was before: the lease is a commit that nobody waits for.
  await world.db`update keyhook.lanes set lease_token = ${lane.token - 1}, lease_owner = null, due_at = now()`
  const [again] = await leaseLanes(world.db, { owner: 'b', lanesMax: 10, leaseMs: 60_000 })
  expect(again!.token).toBeGreaterThan(lane.token)
  expect((await begin(world.db, first)).size).toBe(0)
})

test('an attempt that was begun and never settled is found by the next holder, however the lane became free', async () => {
  const { world, webhook, first, held } = await leasedLane()
  await begin(world.db, first)
  const next = async () => (await leaseLanes(world.db, { owner: 'b', lanesMax: 10, leaseMs: 60_000 }))[0]!
  const freed: (() => Promise<unknown>)[] = [
    () => releaseLanes(world.db, [{ ...held, settled: false, abandon: true }]),
    () => world.db`update keyhook.lanes set due_at = now()`,
    async () => {
      await world.db.begin((tx) => deleteWebhook(tx, world.orgId, webhook.id))
      const [row] = await world.db<{ lease_token: string }[]>`select lease_token from keyhook.lanes`
      return releaseLanes(world.db, [{ ...held, token: Number(row!.lease_token), settled: false, abandon: true }])
    },
  ]
  for (const free of freed) {
    await free()
    const lane = await next()
    expect(lane.takenOver).toBe(true)
    const left = await findLeftovers(world.db, [lane])
    expect(left.map((one) => one.attemptId)).toEqual([first.attemptId])
  }
})

test('a beginning keeps the lease once half of it is over: renewals may have passed over the lane', async () => {
  const { world, first } = await leasedLane()
  const leftMs = async () => {
    const [row] = await world.db<{ ms: number }[]>`
      select (extract(epoch from due_at - now()) * 1000)::int as ms from keyhook.lanes`
    return row!.ms
  }
  await world.db`update keyhook.lanes set due_at = now() + interval '31 seconds'`
  await begin(world.db, first)
  expect(await leftMs()).toBeLessThan(32_000)
  await world.db`update keyhook.lanes set due_at = now() + interval '29 seconds'`
  await begin(world.db, first)
  expect(await leftMs()).toBeGreaterThan(leaseMs - 5_000)
})

test('a wake that stands for very many events is passed on as one for few, and wakes no lane that has them', async () => {
  const { world, lane } = await leasedLane()
  const others = [await world.addWebhook('https://example.com/b'), await world.addWebhook('https://example.com/c')]
  await world.publishOne()
  await wakeLanes(world.db, 10)
  await world.db`update keyhook.lanes set head_seq = 1`
  await world.db`update keyhook.lanes set lease_owner = null, due_at = null, cursor_seq = 2 where id <> ${lane.laneId}`
  await world.db`update keyhook.lanes set cursor_seq = 0 where webhook_id = ${others[0]!.id}`
  await world.db`insert into keyhook.wakes values (${world.orgId}, 1, 5000)`
  const { lanes } = await wakeLanes(world.db, 10)
  expect(lanes.map(({ headSeq }) => headSeq)).toEqual([2, 2, 2])
  const due = await world.db`select webhook_id from keyhook.lanes where due_at <= now()`
  expect(due.map((row) => row.webhook_id)).toEqual([others[0]!.id])
})

test('a lane in which all has begun already is told nothing, and not even locked', async () => {
  const { world, first } = await leasedLane()
  await world.publishOne()
  await begin(world.db, first)
  await begin(world.db, { ...first, eventSeq: 2, attemptId: uuid7(Date.now()) }, 2)
  await world.db.begin(async (tx) => {
    await tx`select from keyhook.lanes for update`
    expect(await wakeLanes(world.db, 1)).toEqual({ lanes: [], more: true })
    expect(await wakeLanes(world.db, 1, 'pass_over')).toEqual({ lanes: [], more: false })
  })
  expect(await world.db`select from keyhook.wakes`).toHaveLength(0)
  await world.publishOne()
  const { lanes } = await wakeLanes(world.db, 1)
  expect(lanes.map(({ headSeq }) => headSeq)).toEqual([3])
})

test('what is left for locked lanes is not told at once again, however much it is', async () => {
  const { world } = await leasedLane()
  await world.publishOne()
  const unlock = await holdOpen(world.db, (tx) => tx`select from keyhook.lanes for update`)
  expect(await wakeLanes(world.db, 1, 'pass_over')).toEqual({ lanes: [], more: false })
  await unlock()
  expect(await wakeLanes(world.db, 1, 'pass_over')).toMatchObject({ lanes: [{ headSeq: 2 }], more: true })
})

test('telling lanes waits for no disk, also where there is nothing to tell', async () => {
  const { world, first } = await leasedLane()
  const { db } = world
  await begin(db, first)
  await db`analyze keyhook.lanes, keyhook.wakes, keyhook.deliveries`
  let unflushed = 0
  // Now and then somebody else has flushed it already.
  for (let i = 0; i < 10; i++) {
    await db`insert into keyhook.wakes values (${world.orgId}, 1, 1)`
    expect(await wakeLanes(db, 10)).toMatchObject({ lanes: [] })
    const [{ bytes }] =
      (await db`select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), pg_current_wal_flush_lsn())::int as bytes`) as [
        { bytes: number },
      ]
    if (bytes > 0) unflushed += 1
  }
  expect(unflushed).toBeGreaterThan(0)
})

test('nothing begins in a lane whose webhook is deleted, whose lease is another, or that was given back', async () => {
  const { world, webhook, first, held } = await leasedLane()
  expect((await begin(world.db, { ...first, token: first.token - 1 })).size).toBe(0)
  await releaseLanes(world.db, [{ ...held, settled: false, abandon: true }])
  expect((await begin(world.db, first)).size).toBe(0)
  const [again] = await leaseLanes(world.db, { owner: 'a', lanesMax: 10, leaseMs: 60_000 })
  const renewed = { ...first, token: again!.token }
  await world.db.begin((tx) => deleteWebhook(tx, world.orgId, webhook.id))
  expect((await begin(world.db, renewed)).size).toBe(0)
  expect(await world.db`select 1 from keyhook.in_flight`).toHaveLength(0)
})

test('a deletion that is not yet answered holds the beginning of an attempt until it is decided', async () => {
  const { world, webhook, first } = await leasedLane()
  let answered = false
  const deleting = world.db.begin(async (tx) => {
    await deleteWebhook(tx, world.orgId, webhook.id)
    await sleep(200)
    answered = true
  })
  await sleep(50)
  const begun = await begin(world.db, first)
  expect(answered).toBe(true)
  expect(begun.size).toBe(0)
  await deleting
})

test('beginning the same attempt twice, after a lost connection, is beginning it once', async () => {
  const { world, first } = await leasedLane()
  expect((await begin(world.db, first)).size).toBe(1)
  expect((await begin(world.db, first)).size).toBe(1)
  expect(await world.db`select attempt from keyhook.in_flight`).toEqual([{ attempt: 1 }])
})

test('what was said on a connection that was given up, and comes late, changes nothing', async () => {
  const { world, first, held } = await leasedLane()
  const second = { ...first, attemptId: uuid7(Date.now()), attempt: 2 }
  await begin(world.db, first, 1)
  await begin(world.db, second, 2)
  expect((await begin(world.db, first, 1)).size).toBe(0)
  expect(await releaseLanes(world.db, [{ ...held, begunNo: 1 }])).toEqual([])
  expect(await world.db`select id from keyhook.in_flight`).toEqual([{ id: second.attemptId }])
  // The retry that waits because the attempt has failed is not the one that the attempt began as.
  const retry = (attempt: number) => world.db`
    insert into keyhook.retries (org_id, lane_id, event_seq, due_at, attempt, try)
    values (${world.orgId}, ${held.laneId}, 1, now(), ${attempt}, ${attempt})`
  await retry(2)
  await begin(world.db, second, 2)
  expect(await world.db`select attempt from keyhook.retries`).toEqual([{ attempt: 2 }])
  await world.db`delete from keyhook.retries`
  await retry(1)
  await begin(world.db, second, 2)
  expect(await world.db`select attempt from keyhook.retries`).toEqual([])
})

test('a lease is good for the server that gave it: another one begins, keeps and gives back nothing under it', async () => {
  const { world, first, held } = await leasedLane()
  await ensurePartitions(world.db, Date.now())
  await begin(world.db, first)
  const second = { ...first, attemptId: uuid7(Date.now()), begunNo: 2, line: null }
  // A standby has taken over, which had got as far as the first beginning: it started at another time.
  await world.db`update keyhook.lanes set lease_server = lease_server - interval '1 second', head_seq = 1, due_at = now()`
  expect((await begin(world.db, second, 2)).size).toBe(0)
  expect(await renewLanes(world.db, [held], 60_000)).toEqual([])
  expect(await releaseLanes(world.db, [held])).toEqual([])
  // Its holder takes the first for settled, and has that from the server before.
  expect(await releaseLanes(world.db, [{ ...held, abandon: true }])).toEqual([held.laneId])
  expect(await world.db`select id from keyhook.in_flight`).toEqual([{ id: first.attemptId }])
  // What this server knows of may be settled until somebody takes the lane, and what it does not know of may not.
  const settle = (one: BegunAttempt) =>
    settleAttempts(world.db, [{ ...failedSilently, begun: one, tries: 1, retryMs: 0 }])
  expect([await settle(second), await settle(first)]).toEqual([0, 1])
})

test('a lane with news is not given back: neither a new delivery nor a request to send again is slept through', async () => {
  const { world, first, held } = await leasedLane()
  expect(await releaseLanes(world.db, [{ ...held, begunNo: 0 }])).toEqual([])
  await begin(world.db, first)
  await world.db.begin((tx) => askLane(tx, world.orgId, held.laneId))
  expect(await releaseLanes(world.db, [held])).toEqual([])
  expect(await releaseLanes(world.db, [{ ...held, asked: held.asked + 1 }])).toEqual([held.laneId])
  const [row] = await world.db`select due_at, lease_owner from keyhook.lanes`
  expect(row).toEqual({ due_at: null, lease_owner: null })
})

test('a publisher of the same organization that is still open does not hide what others have committed', async () => {
  const { world } = await leasedLane()
  let release = () => {}
  const held = new Promise<void>((done) => {
    release = done
  })
  const event = { orgId: world.orgId, type: 'database.created', data: { database_id: 'd', name: 'n' } } as const
  await world.transact((tx) => publish(tx, event))
  const open = world.transact(async (tx) => {
    await publish(tx, event)
    await held
  })
  await sleep(100)
  expect((await wakeLanes(world.db, 10)).lanes.map((lane) => lane.headSeq)).toEqual([2])
  release()
  await open
  expect((await wakeLanes(world.db, 10)).lanes.map((lane) => lane.headSeq)).toEqual([3])
})

test('a deleted webhook hears nothing more, however much was waiting for it', async () => {
  const receiver = await receiverFor(() => ({ delayMs: 40 }))
  const world = await deliveryTest({ KEYHOOK_DELIVERY_PER_WEBHOOK_MAX: '2' })
  const webhook = await world.addWebhook(receiver.url)
  for (let i = 0; i < 80; i++) await world.publishOne()
  await world.startDispatcher()
  await until(() => receiver.received.length >= 4)
  await world.db.begin((tx) => deleteWebhook(tx, world.orgId, webhook.id))
  await sleep(150)
  const heard = receiver.received.length
  await sleep(500)
  expect(receiver.received.length).toBe(heard)
  expect(heard).toBeLessThan(60)
})

test('a redelivery that was asked for after its retry was read begins the schedule anew', async () => {
  const { world, webhook, first } = await leasedLane()
  await ensurePartitions(world.db, Date.now())
  await begin(world.db, first, 1)
  await settleAttempts(world.db, [{ ...failedSilently, begun: first, tries: 1, retryMs: 0 }])
  // Read with one try behind it; before it begins, somebody asks for it again.
  await world.db.begin((tx) => redeliver(tx, world.orgId, webhook.id, first.attemptId))
  const second = { ...first, attempt: 2, tries: 1, attemptId: uuid7(Date.now()), line: null }
  expect((await begin(world.db, second, 2)).get(first.laneId)).toEqual(new Map([[1, 0]]))
})

// Seen to fail without the bound, with an integer out of range: the attempt would have been set aside without its words.
test('an attempt that a stopped machine measured in hours can be stored all the same', async () => {
  const { world, first } = await leasedLane()
  await ensurePartitions(world.db, Date.now())
  await begin(world.db, first)
  const hours = 3 * 3_600_000_000
  const outcome = { ...failedSilently.outcome, durationUs: hours, firstByteUs: hours, dnsUs: 5 }
  expect(await settleAttempts(world.db, [{ requestHeaders: '', begun: first, outcome, tries: 1, retryMs: null }])).toBe(
    1,
  )
  expect(await world.db`select duration_us, first_byte_us, dns_us, tls_us from keyhook.attempts`).toEqual([
    { duration_us: 2 ** 31 - 1, first_byte_us: 2 ** 31 - 1, dns_us: 5, tls_us: null },
  ])
})
