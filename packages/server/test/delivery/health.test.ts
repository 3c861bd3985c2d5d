import { expect, test } from 'vitest'
import { compile } from '../../src/db/statement.ts'
import { pauseLane } from '../../src/delivery/lane-sql.ts'
import { ensurePartitions } from '../../src/delivery/retention-sql.ts'
import { attemptIdOf, uuid7 } from '../../src/lib/ids.ts'
import {
  attemptsCounted,
  findWebhookRecord,
  onlyOrderedScans,
  selectRecords,
  waitingCounted,
} from '../../src/webhooks/sql.ts'
import { scans } from '../kit/plans.ts'
import { deliveryTest } from './support/delivery-test.ts'
import { begin, deliverDue, firstAttempt, lease, settleFailed, wake } from './support/leased-lane.ts'

type World = Awaited<ReturnType<typeof deliveryTest>>

async function health({ db, orgId }: World, id: Parameters<typeof findWebhookRecord>[2]) {
  const row = await findWebhookRecord(db, orgId, id, Date.now())
  const { succeeded, failed, failure_id, oldest_waiting_at, since } = row!
  return { succeeded, failed, failure_id, oldest_waiting_at, since }
}

const publishedAt = async ({ db }: World, eventId: string): Promise<Date> => {
  const [event] = await db<{ created_at: Date }[]>`select created_at from keyhook.events where id = ${eventId}`
  return event!.created_at
}

test('the oldest waiting delivery is one that waits for its first attempt, for a retry, or is in flight', async () => {
  const world = await deliveryTest()
  const { db } = world
  await ensurePartitions(db, Date.now())
  const { id } = await world.addWebhook('https://example.com/')
  expect(await health(world, id)).toMatchObject({ succeeded: 0, failed: 0, failure_id: null, oldest_waiting_at: null })

  const at = await publishedAt(world, await world.publishOne())
  expect((await health(world, id)).oldest_waiting_at).toEqual(at)
  await wake(db)
  const [lane] = await lease(db)
  const first = firstAttempt(lane!)
  await begin(db, first)
  expect((await health(world, id)).oldest_waiting_at, 'in flight').toEqual(at)
  await settleFailed(db, first, 3_600_000)
  await world.publishOne()
  expect((await health(world, id)).oldest_waiting_at, 'waits for its retry').toEqual(at)
})

test('what waits is counted, and the next attempt is that of the first delivery or retry that is due, after a pause', async () => {
  const world = await deliveryTest()
  const { db, orgId } = world
  await ensurePartitions(db, Date.now())
  const { id } = await world.addWebhook('https://example.com/')
  const queue = async () => {
    const row = await findWebhookRecord(db, orgId, id, Date.now())
    return { waiting: row!.waiting, next: row!.next_attempt_at }
  }
  expect(await queue()).toEqual({ waiting: 0, next: null })
  const at = await publishedAt(world, await world.publishOne())
  expect(await queue()).toEqual({ waiting: 1, next: at })
  await wake(db)
  const [lane] = await lease(db)
  const first = firstAttempt(lane!)
  await begin(db, first)
  expect(await queue(), 'in flight').toEqual({ waiting: 1, next: null })
  await settleFailed(db, first, 3_600_000)
  const [retry] = await db<{ due_at: Date }[]>`select due_at from keyhook.retries`
  expect(await queue(), 'waits for its retry').toEqual({ waiting: 1, next: retry!.due_at })
  const second = await publishedAt(world, await world.publishOne())
  expect(await queue()).toEqual({ waiting: 2, next: second })
  const until = new Date(Date.now() + 7_200_000)
  await db.begin((tx) => pauseLane(tx, orgId, id, until))
  expect(await queue(), 'paused').toEqual({ waiting: 2, next: until })
  await db`update keyhook.retries set due_at = ${new Date(Date.now() + 9_000_000)}`
  await db`delete from keyhook.deliveries where event_seq = 2`
  expect((await queue()).next!.getTime(), 'due after the pause').toBeGreaterThan(until.getTime())
})

test('health counts the attempts of a day, shows the last failure, and leaves interrupted ones out', async () => {
  const world = await deliveryTest()
  const { db } = world
  await ensurePartitions(db, Date.now())
  await ensurePartitions(db, Date.now() - 25 * 3_600_000)
  const { id } = await world.addWebhook('https://example.com/')
  for (let i = 0; i < 3; i++) {
    await world.publishOne()
    await deliverDue(db, i === 0 ? null : undefined)
  }
  const [failed] = (await world.attempts()).filter((one) => one.status === 'failed')
  const add = (status: string, ms: number) => db`
    insert into keyhook.attempts (lane_id, id, org_id, event_seq, attempt, status, started_at)
    select id, ${uuid7(Date.now() - ms)}, org_id, 1, 2, ${status}, now() from keyhook.lanes`
  await add('interrupted', 0)
  await add('failed', 25 * 3_600_000)
  expect(await health(world, id)).toMatchObject({
    succeeded: 2,
    failed: 1,
    failure_id: failed!.id,
    oldest_waiting_at: null,
  })
  expect(attemptIdOf(failed!.id)).toMatch(/^dlv_/)
})

test('the health of a webhook with a long history costs a bounded number of index entries', async () => {
  const world = await deliveryTest()
  const { db, orgId } = world
  await ensurePartitions(db, Date.now())
  const { id } = await world.addWebhook('https://example.com/')
  const [lane] = await db<{ id: string }[]>`select id from keyhook.lanes`
  // Newest first: one failure, and very many that succeeded after it.
  const extra = 5_000
  const ids = Array.from({ length: attemptsCounted + extra }, (_, i) => uuid7(Date.now() - attemptsCounted - extra + i))
  await db`
    insert into keyhook.attempts (lane_id, id, org_id, event_seq, attempt, status, started_at)
    select ${lane!.id}, a.id, ${orgId}, a.n, 1, case when a.n = 1 then 'failed' else 'succeeded' end, now()
    from unnest(${ids}::uuid[]) with ordinality as a (id, n)`
  await db`
    insert into keyhook.deliveries (org_id, event_seq, lane_id)
    select ${orgId}, n, ${lane!.id} from generate_series(1, ${ids.length}) n`
  await db`update keyhook.lanes set cursor_seq = ${ids.length}`
  const found = await health(world, id)
  expect(found).toMatchObject({ succeeded: attemptsCounted, failed: 0, failure_id: ids[0] })

  const read = async () => {
    const plan = await db.begin(async (tx) => {
      await onlyOrderedScans(tx)
      const { text, values } = compile(selectRecords(tx, orgId, { before: null, limit: 50, nowMs: Date.now() }))
      const [row] = await tx.unsafe(`explain (analyze, format json) ${text}`, values as string[])
      return row!['QUERY PLAN'][0].Plan
    })
    return scans(plan).reduce((sum, { rows }) => sum + rows, 0)
  }
  for (const when of ['without statistics', 'with statistics']) {
    if (when === 'with statistics') await db`analyze`
    // Once to find where counting starts, once to count.
    expect(await read(), when).toBeLessThan(2 * attemptsCounted + 100)
  }

  // As after a long outage: more deliveries and retries wait than are counted.
  await db`update keyhook.lanes set cursor_seq = 100`
  await db`
    insert into keyhook.retries (lane_id, event_seq, org_id, due_at, attempt, try)
    select ${lane!.id}, 100000 + n, ${orgId}, now(), 1, 1 from generate_series(1, ${ids.length}) n`
  expect((await findWebhookRecord(db, orgId, id, Date.now()))!.waiting).toBe(waitingCounted)
  expect(await read()).toBeLessThan(2 * attemptsCounted + 2 * waitingCounted + 100)
})
