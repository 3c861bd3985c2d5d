import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { pauseLane } from '../../src/delivery/lane-sql.ts'
import { createMaintenance } from '../../src/delivery/maintenance.ts'
import { countRecoverable } from '../../src/delivery/redelivery-sql.ts'
import { ensurePartitions } from '../../src/delivery/retention-sql.ts'
import { releaseLanes } from '../../src/delivery/statements/held-lanes.ts'
import { interruptAttempts } from '../../src/delivery/statements/settle.ts'
import { uuid7 } from '../../src/lib/ids.ts'
import { deleteWebhook } from '../../src/webhooks/sql.ts'
import { call } from '../kit/client.ts'
import { apiAlone } from '../kit/composed.ts'
import { holdOpen } from '../kit/hold-open.ts'
import { until } from '../kit/until.ts'
import { age, partitionOf, partitions } from './support/ageing.ts'
import { deliveryTest } from './support/delivery-test.ts'
import { begin, deliverDue, firstAttempt, lease, settleFailed, wake } from './support/leased-lane.ts'

const log = pino({ level: 'silent' })

/** What dispatchers do every hour, once on so many nodes. Fails when any of it failed. */
async function runHourly(db: Database, retentionDays: number | null, { nodes = 1, aheadMs = 0 } = {}): Promise<void> {
  const failures: unknown[] = []
  const node = () =>
    createMaintenance({
      db,
      retentionDays,
      now: () => Date.now() + aheadMs,
      leaseMs: 1_000,
      hint() {},
      onClockSetBack() {},
      onError: (error) => failures.push(error),
    }).hourly()
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
const deliveriesLeft = async (db: Database) => (await db`select from keyhook.deliveries`).length

/** With a webhook; the test dispatches, and no dispatcher runs. */
async function retentionTest(environment: Record<string, string> = {}) {
  const world = await deliveryTest(environment)
  await ensurePartitions(world.db, Date.now())
  const webhook = await world.addWebhook('https://example.com/')
  return { world, db: world.db, webhook }
}

test('old attempts are deleted with their partition, finished events follow them, and newer ones stay', async () => {
  const { world, db, webhook } = await retentionTest()
  const ids = [await world.publishOne(), await world.publishOne(), await world.publishOne()]
  await deliverDue(db)
  await age(db, ids[0]!, 60)
  await age(db, ids[1]!, 20)
  const api = await startApi(world)
  expect(await api.history(webhook.id)).toEqual([ids[2], ids[1], ids[0]])
  const oldest = await api.firstDelivery(webhook.id)
  expect(await partitions(db)).toContain(partitionOf(60))
  await runHourly(db, 30)
  // Dropped, not emptied: rows of an emptied partition would be left for a vacuum.
  expect(await partitions(db)).not.toContain(partitionOf(60))
  expect(await partitions(db)).toContain(partitionOf(20))
  expect(await eventsLeft(db)).toEqual([ids[1], ids[2]])
  expect(await deliveriesLeft(db)).toBe(2)
  expect(await api.history(webhook.id)).toEqual([ids[2], ids[1]])
  expect((await api.explain(ids[0]!)).status).toBe(404)
  expect((await api.explain(ids[1]!)).deliveries).toMatchObject([{ status: 'succeeded', attempts: [{}] }])
  expect(await api.redeliver(webhook.id, oldest)).toBe(404)
})

test('a dispatcher applies the retention that operators set, when it starts', async () => {
  const { world, db } = await retentionTest({ KEYHOOK_RETENTION_DAYS: '30' })
  const id = await world.publishOne()
  await deliverDue(db)
  await age(db, id, 60)
  await world.startDispatcher()
  await until(async () => (await eventsLeft(db)).length === 0)
  expect(await partitions(db)).not.toContain(partitionOf(60))
})

test('a node whose clock is months ahead deletes nothing because of it', async () => {
  const { world, db } = await retentionTest()
  await world.publishOne()
  await deliverDue(db)
  await runHourly(db, 30, { aheadMs: 90 * 86_400_000 })
  expect(await world.attempts()).toHaveLength(1)
  expect(await deliveriesLeft(db)).toBe(1)
})

test('without the setting nothing is deleted; partitions for the coming weeks are added in any case', async () => {
  const { world, db } = await retentionTest()
  const id = await world.publishOne()
  await deliverDue(db)
  await age(db, id, 4_000)
  await db.unsafe(`drop table keyhook.${partitionOf(-14)}, keyhook.${partitionOf(-21)}`)
  await runHourly(db, null)
  expect(await partitions(db)).toEqual(expect.arrayContaining([4_000, -14, -21].map(partitionOf)))
  expect(await eventsLeft(db)).toEqual([id])
  expect(await world.attempts()).toHaveLength(1)
  await runHourly(db, 30)
  expect(await partitions(db)).toEqual([7, 0, -7, -14, -21].map(partitionOf))
})

test('an unfinished delivery is never lost, however old: a waiting retry, one never begun, one in flight after a crash', async () => {
  const { world, db } = await retentionTest()
  const waiting = await world.publishOne()
  await deliverDue(db, 86_400_000)
  // As a killed process leaves it: an attempt is in flight, and the lease is not renewed.
  const inFlight = await world.publishOne()
  await wake(db)
  const [lane] = await lease(db)
  const attempt = firstAttempt(lane!, 2)
  await begin(db, attempt)
  await db`update keyhook.lanes set due_at = now()`
  const notBegun = await world.publishOne()
  const ids = [waiting, inFlight, notBegun]
  for (const id of ids) await age(db, id, 60)
  await runHourly(db, 30)
  expect(await eventsLeft(db)).toEqual(ids)
  expect(await deliveriesLeft(db)).toBe(3)
  // The week of the attempt in flight is kept, so that its outcome can be recorded.
  expect(await partitions(db)).toContain(partitionOf(60))

  await wake(db)
  const taken = await lease(db)
  expect(await interruptAttempts(db, taken)).toHaveLength(1)
  expect((await world.attempts()).filter((one) => one.status === 'interrupted')).toHaveLength(1)
  await db`update keyhook.retries set due_at = now()`
  await releaseLanes(db, [{ ...taken[0]!, abandon: true }])
  await deliverDue(db)
  const succeeded = (await world.attempts()).filter((one) => one.status === 'succeeded')
  expect(succeeded.map((one) => one.event_seq).sort()).toEqual([1, 2, 3])
  for (const id of ids) await age(db, id, 60)
  await runHourly(db, 30)
  expect(await eventsLeft(db)).toEqual([])
})

test('a retry of a webhook that was deleted while its attempt was settled keeps nothing', async () => {
  const { world, db, webhook } = await retentionTest()
  const id = await world.publishOne()
  await deliverDue(db, null)
  await db.begin((tx) => deleteWebhook(tx, world.orgId, webhook.id))
  await db`insert into keyhook.retries select id, 1, org_id, now(), 1, 1 from keyhook.lanes`
  await age(db, id, 60)
  await runHourly(db, 30)
  expect(await eventsLeft(db)).toEqual([])
  expect(await db`select from keyhook.retries`).toHaveLength(0)
})

test('an event that one webhook still waits for is shown as expired for the others', async () => {
  const { world, db, webhook: served } = await retentionTest()
  const id = await world.publishOne()
  await deliverDue(db)
  const unserved = await world.addWebhook('https://example.com/')
  await db`
    insert into keyhook.deliveries (org_id, event_seq, lane_id)
    select org_id, 1, id from keyhook.lanes where webhook_id = ${unserved.id}`
  await db`update keyhook.lanes set due_at = now() where webhook_id = ${unserved.id}`
  await deliverDue(db, 86_400_000)
  await age(db, id, 60)
  await runHourly(db, 30)
  const api = await startApi(world)
  const { deliveries } = await api.explain(id)
  const statusOf = (webhookId: string) => deliveries.find((one) => one.webhook_id === webhookId)
  expect(statusOf(served.id)).toMatchObject({ status: 'expired', attempts: [] })
  expect(statusOf(unserved.id)).toMatchObject({ status: 'waiting', attempts: [] })
  // Without a record it may have succeeded, so a recovery does not send it again; the one that waits it does.
  const lanes = await db<{ id: string; webhook_id: string }[]>`select id, webhook_id from keyhook.lanes`
  const counts = new Map<string, number>()
  for (const lane of lanes) {
    const range = { orgId: world.orgId, laneId: Number(lane.id), since: new Date(0), until: new Date() }
    counts.set(lane.webhook_id, await countRecoverable(db, range))
  }
  expect([counts.get(served.id), counts.get(unserved.id)]).toEqual([0, 1])
})

test('several nodes can apply retention at the same time', async () => {
  const { world, db } = await retentionTest()
  const id = await world.publishOne()
  await deliverDue(db)
  // More finished events than one statement takes.
  await db`
    insert into keyhook.events (org_id, seq, sequence, id, type, body, created_at)
    select org_id, seq + n, sequence + n, 'old-' || n, type, body, now() - interval '90 days'
    from keyhook.events, generate_series(1, 3500) n`
  await db`
    insert into keyhook.deliveries (org_id, event_seq, lane_id) select d.org_id, d.event_seq + n, d.lane_id
    from keyhook.deliveries d, generate_series(1, 3500) n`
  await db`update keyhook.lanes set cursor_seq = 3501, head_seq = 3501`
  await age(db, id, 200)
  await db.unsafe(`drop table keyhook.${partitionOf(-21)}`)
  await runHourly(db, 30, { nodes: 6 })
  // Events that one node examined while another could have deleted them are left for the next hour.
  await runHourly(db, 30)
  expect(await eventsLeft(db)).toEqual([])
  expect(await deliveriesLeft(db)).toBe(0)
  expect(await partitions(db)).toEqual([7, 0, -7, -14, -21].map(partitionOf))
})

test('a reader that takes an hour, such as a dump, holds up neither new partitions nor deliveries', async () => {
  const { world, db } = await retentionTest()
  const old = await world.publishOne()
  await deliverDue(db)
  await age(db, old, 60)
  await db.unsafe(`drop table keyhook.${partitionOf(-21)}`)
  const finishDump = await holdOpen(db, (tx) => tx`select * from keyhook.attempts`)
  await runHourly(db, 30)
  expect(await partitions(db)).toContain(partitionOf(-21))
  expect(await partitions(db)).toContain(partitionOf(60))
  await world.publishOne()
  await deliverDue(db)
  expect(await world.attempts()).toHaveLength(2)
  await finishDump()
  await runHourly(db, 30)
  expect(await partitions(db)).not.toContain(partitionOf(60))
})

test('an attempt can be stored although a clock was years off when it began', async () => {
  const { world, db } = await retentionTest()
  await world.publishOne()
  await wake(db)
  const [lane] = await lease(db)
  const attempt = { ...firstAttempt(lane!), attemptId: uuid7(Date.now() + 3_000 * 86_400_000) }
  await begin(db, attempt)
  await expect(settleFailed(db, attempt)).rejects.toThrow('no partition')
  await runHourly(db, null)
  expect(await settleFailed(db, attempt)).toBe(1)
  expect(await partitions(db)).toContain(partitionOf(-3_000))
})

test('retention remembers the newest number that it deleted, and never takes it back', async () => {
  const { world, db } = await retentionTest()
  const [first, second] = [await world.publishOne(), await world.publishOne()]
  await deliverDue(db)
  const expired = async () => (await db`select last_sequence::int as last from keyhook.expired_events`)[0]?.last
  await age(db, second, 60)
  await runHourly(db, 30)
  // The first is younger by its time, as after a clock that was ahead.
  expect([await eventsLeft(db), await expired()]).toEqual([[first], 2])
  await age(db, first, 60)
  await runHourly(db, 30)
  expect([await eventsLeft(db), await expired()]).toEqual([[], 2])
})

test('events that wait for a paused webhook are kept, and its earlier URLs leave with the attempts that were sent there', async () => {
  const world = await deliveryTest()
  const { db, orgId } = world
  const { id } = await world.addWebhook('https://example.com/')
  const eventId = await world.publishOne()
  await db.begin((tx) => pauseLane(tx, orgId, id, new Date(Date.now() + 86_400_000)))
  await age(db, eventId, 60)
  await db`
    insert into keyhook.earlier_urls (lane_id, until, url)
    select l.id, now() - days * interval '1 day', 'https://example.com/' || days
    from keyhook.lanes l, unnest('{1,60}'::int[]) as days`
  await runHourly(db, 7)
  expect(await db`select id from keyhook.events`).toEqual([{ id: eventId }])
  expect(await db`select url from keyhook.earlier_urls`).toEqual([{ url: 'https://example.com/1' }])
})
