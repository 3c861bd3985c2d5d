import { expect, test } from 'vitest'
import { publishAll } from '../../src/delivery/publish.ts'
import { webhookRecordOf } from '../../src/webhooks/schemas.ts'
import { findWebhookRecord } from '../../src/webhooks/sql.ts'
import { until } from '../kit/until.ts'
import { deliveryTest } from './support/delivery-test.ts'
import { findLostDeliveries } from './support/lost-deliveries.ts'
import { eventIdOf, receiverFor } from './support/receiver.ts'
import { passHours, runHealthWorkers } from './support/suspension.ts'

const stepHours = 6

test('a receiver that fails for two days, with 10,000 events, gets all of them in order when it is back, over HTTPS', {
  timeout: 300_000,
}, async () => {
  // Both attempts of the first day fail in it, and the third is due after the two days.
  const world = await deliveryTest({ KEYHOOK_DELIVERY_RETRY_SCHEDULE: '0s,5h,60h' })
  const { db, orgId, transact } = world
  let status = 503
  const receiver = await receiverFor(() => ({ status }))
  const { id } = await world.addWebhook(receiver.url)
  await world.startDispatcher()
  const statusNow = async () => webhookRecordOf((await findWebhookRecord(db, orgId, id, Date.now()))!).status
  const published: string[] = []
  const publishMany = async (count: number) => {
    const data = Array.from({ length: count }, (_, n) => ({ database_id: 'db_1', name: `database ${n}` }))
    published.push(...(await transact((tx) => publishAll(tx, { orgId, type: 'database.created', data }))))
  }
  const attempts = async () => {
    const [row] = await db<{ count: number }[]>`select count(*)::int as count from keyhook.attempts`
    return row!.count
  }
  /** Every attempt that is due has ended, and the lane is given back. */
  const isQuiet = async () => {
    const rows = await db`
      select from keyhook.lanes where lease_owner is not null or due_at <= now() union all select from keyhook.wakes`
    return rows.length === 0
  }

  for (const count of [1_000, 500, 500, 0]) {
    await publishMany(count)
    await until(isQuiet)
    await passHours(db, stepHours)
    await until(isQuiet)
  }
  expect(await attempts()).toBe(4_000)
  await runHealthWorkers(transact)
  expect(await statusNow()).toBe('suspended')
  for (let step = 1; step <= 4; step++) {
    await publishMany(2_000)
    await passHours(db, stepHours)
    // One probe, however much waits.
    await until(async () => (await attempts()) === 4_000 + step)
    await until(isQuiet)
    expect(await findLostDeliveries(db)).toEqual([])
  }
  expect(await statusNow()).toBe('suspended')

  status = 200
  await passHours(db, 1)
  await until(async () => {
    await runHealthWorkers(transact)
    return (await statusNow()) === 'active'
  })
  await until(isQuiet)
  expect(await findLostDeliveries(db)).toEqual([])
  expect(await db`select from keyhook.retries`).toHaveLength(0)

  const rows = await db<{ event_id: string; event_seq: number; attempt: number; status: string }[]>`
    select e.id as event_id, a.event_seq::int, a.attempt, a.status
    from keyhook.attempts a join keyhook.events e on e.org_id = a.org_id and e.seq = a.event_seq order by a.id`
  expect(rows.map(({ event_id }) => event_id).sort()).toEqual(receiver.received.map(eventIdOf).sort())
  const [probe, ...waited] = rows.slice(4_004)
  expect([probe!.status, new Set(waited.map((row) => row.status))]).toEqual(['succeeded', new Set(['succeeded'])])
  expect([probe!, ...waited].map(({ event_id }) => event_id).sort()).toEqual(published.toSorted())
  // In the order in which they began; requests that are in flight together may arrive in another.
  const seqs = waited.map(({ event_seq }) => event_seq)
  expect(seqs).toEqual(seqs.toSorted((a, b) => a - b))
})
