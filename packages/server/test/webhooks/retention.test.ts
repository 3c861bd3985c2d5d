import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { countRecoverable } from '../../src/store/delivery/recoveries.ts'
import { deleteWebhook } from '../../src/store/webhooks.ts'
import { createHousekeeping } from '../../src/webhooks/housekeeping.ts'
import { call } from '../support/client.ts'
import { apiAlone } from '../support/composed.ts'
import { age, agedList, partitionOf, partitions } from './support/ageing.ts'
import { deliveryTest, until } from './support/delivery-test.ts'
import { eventIdOf, type Reply, receiverFor } from './support/receiver.ts'

const log = pino({ level: 'silent' })

/** Tidies up as a dispatcher does, once, and fails if anything about it failed. */
async function tidy(db: Database, retentionDays: number | null, { nodes = 1, aheadMs = 0 } = {}): Promise<void> {
  const failures: unknown[] = []
  const node = () =>
    createHousekeeping({
      db,
      retentionDays,
      now: () => Date.now() + aheadMs,
      leaseMs: 1_000,
      hint() {},
      onClockSetBack() {},
      onError: (error) => failures.push(error),
    }).tidy()
  await Promise.all(Array.from({ length: nodes }, node))
  expect(failures).toEqual([])
}

type World = Awaited<ReturnType<typeof deliveryTest>>

async function startApi(world: World) {
  const api = apiAlone(world, log)
  const url = await api.app.listen({ host: '127.0.0.1', port: 0 })
  onTestFinished(() => api.close())
  const get = (path: string) => call<never>(`${url}${path}`, { token: world.owner.token })
  type Explained = { delivered_to: { webhook_id: string; status: string; attempts: unknown[] }[] }
  return {
    explain: async (id: string) => {
      const { status, body } = await get(`/platform/v1/organizations/${world.orgId}/events/${id}`)
      return { status, deliveries: status === 200 ? (body as Explained).delivered_to : [] }
    },
    history: async (webhookId: string) => {
      const { body } = await get(`/api/v1/organizations/${world.orgId}/webhooks/${webhookId}/deliveries`)
      return (body as { id: string; event_id: string }[]).map((one) => one.event_id)
    },
    redeliver: async (webhookId: string, deliveryId: string) => {
      const path = `/platform/v1/organizations/${world.orgId}/webhooks/${webhookId}/deliveries/${deliveryId}/redeliver`
      return (await call(`${url}${path}`, { method: 'POST', token: world.owner.token })).status
    },
    firstDelivery: async (webhookId: string) => {
      const { body } = await get(`/api/v1/organizations/${world.orgId}/webhooks/${webhookId}/deliveries`)
      return (body as { id: string }[]).at(-1)!.id
    },
  }
}

const eventsLeft = async (db: Database) =>
  (await db<{ id: string }[]>`select id from keyhook.events order by seq`).map((row) => row.id)
const deliveriesLeft = async (db: Database) => (await db`select 1 from keyhook.deliveries`).length
const settled = (world: World, count: number) =>
  until(async () => (await world.attempts()).length >= count, `${count} attempts`)

/** An event that has been delivered; nothing runs any more. */
async function deliverOne(world: World): Promise<string> {
  const receiver = await receiverFor()
  await world.addWebhook(receiver.url)
  const engine = await world.startDispatcher()
  const id = await world.publishOne()
  await settled(world, 1)
  await engine.stop()
  return id
}

test('old attempts leave with their partition, finished events follow them, and younger ones stay', async () => {
  const world = await deliveryTest({ KEYHOOK_RETENTION_DAYS: '30' })
  const receiver = await receiverFor()
  const webhook = await world.addWebhook(receiver.url)
  const first = await world.startDispatcher()
  const ids = [await world.publishOne(), await world.publishOne(), await world.publishOne()]
  await settled(world, 3)
  await first.stop()
  await age(world.db, ids[0]!, 60)
  await age(world.db, ids[1]!, 20)
  const api = await startApi(world)
  expect(await api.history(webhook.id)).toEqual([ids[2], ids[1], ids[0]])
  const oldest = await api.firstDelivery(webhook.id)
  expect(await partitions(world.db)).toContain(partitionOf(60))

  // The setting reaches a dispatcher as operators start it, and it tidies up when it starts.
  await world.startDispatcher()
  await until(async () => (await eventsLeft(world.db)).length === 2, 'the old event to leave')
  // Dropped, not emptied: emptying would leave the partition here, and its rows for a vacuum to find.
  expect(await partitions(world.db)).not.toContain(partitionOf(60))
  expect(await partitions(world.db)).toContain(partitionOf(20))
  expect(await eventsLeft(world.db)).toEqual([ids[1], ids[2]])
  expect(await deliveriesLeft(world.db)).toBe(2)
  expect(await api.history(webhook.id)).toEqual([ids[2], ids[1]])
  expect((await api.explain(ids[0]!)).status).toBe(404)
  expect((await api.explain(ids[1]!)).deliveries).toMatchObject([{ status: 'succeeded', attempts: [{}] }])
  expect(await api.redeliver(webhook.id, oldest)).toBe(404)
})

test('a node whose clock is months ahead deletes nothing for it', async () => {
  const world = await deliveryTest()
  await deliverOne(world)
  await tidy(world.db, 30, { aheadMs: 90 * 86_400_000 })
  expect(await world.attempts()).toHaveLength(1)
  expect(await deliveriesLeft(world.db)).toBe(1)
})

test('without the setting nothing is deleted, and with it rooms for the coming weeks are made ahead', async () => {
  const world = await deliveryTest()
  const id = await deliverOne(world)
  await age(world.db, id, 4_000)
  const before = await partitions(world.db)
  await tidy(world.db, null)
  expect(await partitions(world.db)).toEqual(before)
  expect(await eventsLeft(world.db)).toEqual([id])
  expect((await world.attempts()).length).toBe(1)
  await world.db.unsafe(`drop table keyhook.${partitionOf(-14)}, keyhook.${partitionOf(-21)}`)
  await tidy(world.db, 30)
  expect(await partitions(world.db)).toEqual([7, 0, -7, -14, -21].map(partitionOf))
})

test('what is not finished is never lost, however old: a retry that waits, one never begun, one cut off by a crash', async () => {
  const world = await deliveryTest({ KEYHOOK_DELIVERY_RETRY_SCHEDULE: '0s,1d', KEYHOOK_DELIVERY_LEASE_MS: '500' })
  let broken = true
  let hang = false
  const hanging = () => new Promise<Reply>(() => {})
  const receiver = await receiverFor(() => (hang ? hanging() : { status: broken ? 500 : 200 }))
  await world.addWebhook(receiver.url)
  const first = await world.startDispatcher()
  const waiting = await world.publishOne()
  await settled(world, 1)
  hang = true
  const begun = await world.publishOne()
  await until(() => receiver.received.length === 2)
  // As a killed process leaves it: the attempt is begun, the lane is held, and nobody renews.
  const [left] = await world.db<{ begun: string; event_seq: string }[]>`
    select l.begun, s.event_seq from keyhook.lanes l join keyhook.in_flight s on s.lane_id = l.id`
  await first.stop()
  await world.db`delete from keyhook.retries where event_seq = ${left!.event_seq}`
  await world.db`delete from keyhook.attempts where event_seq = ${left!.event_seq}`
  await world.db`update keyhook.lanes set begun = ${left!.begun}, lease_owner = 'killed', due_at = now()`
  const unbegun = await world.publishOne()
  const ids = [waiting, begun, unbegun]
  for (const id of ids) await age(world.db, id, 60)
  await tidy(world.db, 30)
  expect(await eventsLeft(world.db)).toEqual(ids)
  expect(await deliveriesLeft(world.db)).toBe(3)
  // The week of the attempt without an outcome stays, so that it can be recorded.
  expect(await partitions(world.db)).toContain(partitionOf(60))

  broken = false
  hang = false
  await world.db`update keyhook.retries set due_at = now()`
  const heard = receiver.received.length
  await world.startDispatcher()
  await until(() => receiver.received.length === heard + 3, 'all three')
  expect(receiver.received.slice(heard).map(eventIdOf).sort()).toEqual(ids.sort())
  await until(async () => (await world.attempts()).filter((row) => row.status === 'succeeded').length === 3)
  expect((await world.attempts()).filter((row) => row.status === 'interrupted')).toHaveLength(1)
  // Now their attempts are new: the events stay with them, and the old week goes.
  await tidy(world.db, 30)
  expect(await partitions(world.db)).not.toContain(partitionOf(60))
  expect(await eventsLeft(world.db)).toHaveLength(3)
})

/** As if the clock had gone on for sixty days with nobody there: what the lanes list grows old with the rest. */
async function sleepForTwoMonths({ db }: { db: Database }): Promise<void> {
  const lists = await db<{ id: string; begun: string }[]>`select id, begun from keyhook.lanes where begun is not null`
  for (const { id } of await db<{ id: string }[]>`select id from keyhook.events`) await age(db, id, 60)
  for (const { id, begun } of lists) await db`update keyhook.lanes set begun = ${agedList(begun, 60)} where id = ${id}`
}

test('a lane that was left by a crash lists what has long succeeded: its week stays, and nothing is sent again', async () => {
  const world = await deliveryTest({ KEYHOOK_DELIVERY_LEASE_MS: '500', KEYHOOK_RETENTION_DAYS: '30' })
  const receiver = await receiverFor()
  await world.addWebhook(receiver.url)
  const other = await world.addWebhook(receiver.url)
  const first = await world.startDispatcher()
  await world.publishOne()
  await settled(world, 2)
  const lists = await world.db<{ id: string; begun: string }[]>`select id, begun from keyhook.lanes`
  await first.stop()
  for (const { id, begun } of lists) await world.db`update keyhook.lanes set begun = ${begun} where id = ${id}`
  await world.db.begin((tx) => deleteWebhook(tx, world.orgId, other.id))
  await sleepForTwoMonths(world)
  expect(await world.db`select 1 from keyhook.in_flight`).toHaveLength(0)
  await world.startDispatcher()
  await until(async () => (await world.db`select 1 from keyhook.lanes where begun is not null`).length === 0)
  await tidy(world.db, 30)
  expect(await partitions(world.db)).not.toContain(partitionOf(60))
  expect(await eventsLeft(world.db)).toEqual([])
  expect(receiver.received).toHaveLength(2)
})

test('a retry of a webhook that was deleted in the middle of an attempt keeps nothing', async () => {
  const world = await deliveryTest({ KEYHOOK_DELIVERY_RETRY_SCHEDULE: '0s,1d' })
  const answer = Promise.withResolvers<Reply>()
  const receiver = await receiverFor(() => answer.promise)
  const webhook = await world.addWebhook(receiver.url)
  await world.startDispatcher()
  const id = await world.publishOne()
  await until(() => receiver.received.length === 1)
  await world.db.begin((tx) => deleteWebhook(tx, world.orgId, webhook.id))
  answer.resolve({ status: 500 })
  await settled(world, 1)
  await age(world.db, id, 60)
  await tidy(world.db, 30)
  expect(await eventsLeft(world.db)).toEqual([])
  expect(await world.db`select 1 from keyhook.retries`).toHaveLength(0)
})

test('an event that one webhook still waits for says of the others that their attempts have left the history', async () => {
  const world = await deliveryTest({ KEYHOOK_DELIVERY_RETRY_SCHEDULE: '0s,1d' })
  const good = await receiverFor()
  const bad = await receiverFor(() => ({ status: 500 }))
  const served = await world.addWebhook(good.url)
  const unserved = await world.addWebhook(bad.url)
  const engine = await world.startDispatcher()
  const id = await world.publishOne()
  await settled(world, 2)
  await engine.stop()
  await age(world.db, id, 60)
  await tidy(world.db, 30)
  const api = await startApi(world)
  const { deliveries } = await api.explain(id)
  const statusOf = (webhookId: string) => deliveries.find((one) => one.webhook_id === webhookId)
  expect(statusOf(served.id)).toMatchObject({ status: 'expired', attempts: [] })
  expect(statusOf(unserved.id)).toMatchObject({ status: 'waiting', attempts: [] })
  // Nobody can say any more that it did not arrive, so a recovery leaves it alone; the one that waits it sends.
  const lanes = await world.db<{ id: string; webhook_id: string }[]>`select id, webhook_id from keyhook.lanes`
  const counts = new Map<string, number>()
  for (const lane of lanes) {
    const stretch = { orgId: world.orgId, laneId: Number(lane.id), since: new Date(0), until: new Date() }
    const count = await countRecoverable(world.db, stretch)
    counts.set(lane.webhook_id, count)
  }
  expect([counts.get(served.id), counts.get(unserved.id)]).toEqual([0, 1])
})

test('nodes that tidy up at the same moment do not get into each other’s way', async () => {
  const world = await deliveryTest()
  const id = await deliverOne(world)
  // Thousands of events beside it, delivered and over a long time ago: more than one statement takes.
  await world.db`
    insert into keyhook.events (org_id, seq, id, type, body, created_at)
    select org_id, seq + n, 'old-' || n, type, body, now() - interval '90 days'
    from keyhook.events, generate_series(1, 3500) n`
  await world.db`
    insert into keyhook.deliveries select d.org_id, d.event_seq + n, d.lane_id
    from keyhook.deliveries d, generate_series(1, 3500) n`
  await world.db`update keyhook.lanes set cursor_seq = 3501, head_seq = 3501`
  await age(world.db, id, 200)
  await world.db.unsafe(`drop table keyhook.${partitionOf(-21)}`)
  await tidy(world.db, 30, { nodes: 6 })
  // What one of them was looking at in the moment another could have deleted it is left for the next hour.
  await tidy(world.db, 30)
  expect(await eventsLeft(world.db)).toEqual([])
  expect(await deliveriesLeft(world.db)).toBe(0)
  expect(await partitions(world.db)).toEqual([7, 0, -7, -14, -21].map(partitionOf))
})

test('a reader that takes an hour, such as a dump, holds up neither new partitions nor deliveries', async () => {
  const world = await deliveryTest()
  const receiver = await receiverFor()
  await world.addWebhook(receiver.url)
  await world.startDispatcher()
  const old = await world.publishOne()
  await settled(world, 1)
  await age(world.db, old, 60)
  await world.db.unsafe(`drop table keyhook.${partitionOf(-21)}`)
  let finish = () => {}
  const dump = world.db.begin(async (tx) => {
    await tx`select * from keyhook.attempts`
    await new Promise<void>((done) => {
      finish = done
    })
  })
  await until(async () => {
    const [row] = await world.db`
      select count(*)::int as n from pg_locks where relation = 'keyhook.attempts'::regclass and mode = 'AccessShareLock'`
    return row!.n > 0
  })
  await tidy(world.db, 30)
  expect(await partitions(world.db)).toContain(partitionOf(-21))
  expect(await partitions(world.db)).toContain(partitionOf(60))
  await world.publishOne()
  await until(() => receiver.received.length === 2, 'a delivery beside the dump')
  finish()
  await dump
  await tidy(world.db, 30)
  expect(await partitions(world.db)).not.toContain(partitionOf(60))
})
