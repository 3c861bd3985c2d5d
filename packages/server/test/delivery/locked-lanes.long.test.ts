import { expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { firstWake, wakeLanes } from '../../src/delivery/statements/wake.ts'
import { holdOpen } from '../kit/hold-open.ts'
import { until } from '../kit/until.ts'
import { deliveryTest } from './support/delivery-test.ts'
import { wake } from './support/leased-lane.ts'
import { receiverFor } from './support/receiver.ts'

/** Locks a webhook's lane until the returned function is called. */
const lockLane = (db: Database, webhookId: string) =>
  holdOpen(db, (tx) => tx`select from keyhook.lanes where webhook_id = ${webhookId} for update`)

async function twoOrganizations() {
  const receiver = await receiverFor()
  const world = await deliveryTest()
  const other = await world.organization('Other')
  const person = await world.person([{ orgId: other, role: 'owner' }])
  const lockedHook = await world.addWebhook(`${receiver.url}/locked`)
  await world.addWebhook(`${receiver.url}/other`, { org: other, user: person.userId })
  const arrived = (path: string) => receiver.received.filter((one) => one.path.endsWith(path)).length
  return { world, other, lockedHook, arrived }
}

test.each(['leased', 'free'])('a locked lane that is %s holds up no other lane, and loses nothing', async (state) => {
  const { world, other, lockedHook, arrived } = await twoOrganizations()
  await world.startDispatcher()
  await world.publishOne(other)
  await until(() => arrived('/other') === 1)
  if (state === 'leased') {
    await world.publishOne()
    await until(() => arrived('/locked') === 1)
  }
  const before = arrived('/locked')
  const unlock = await lockLane(world.db, lockedHook.id)
  await world.publishOne()
  // Twice as long as a lease, which is renewed meanwhile.
  const end = Date.now() + 4_000
  for (let count = 2; Date.now() < end; count++) {
    await world.publishOne(other)
    await until(() => arrived('/other') === count)
  }
  expect(arrived('/locked')).toBe(before)
  await unlock()
  await until(() => arrived('/locked') === before + 1)
  await until(async () => (await world.db`select from keyhook.lanes where due_at is not null`).length === 0)
  expect(arrived('/locked')).toBe(before + 1)
  const attempts = await world.db`select from keyhook.attempts where status <> 'succeeded'`
  expect(attempts).toHaveLength(0)
})

test('wakes that stay for a locked lane wake it once it is unlocked, and are deleted then', async () => {
  const { world, lockedHook } = await twoOrganizations()
  const { db } = world
  for (let i = 0; i < 3; i++) await world.publishOne()
  const unlock = await lockLane(db, lockedHook.id)
  expect(await wakeLanes(db, firstWake, 2)).toEqual({ free: 0, next: { orgId: world.orgId, firstSeq: 2 } })
  expect(await wake(db)).toEqual({ free: 0, next: null })
  expect(await db`select from keyhook.wakes`).toHaveLength(3)
  await unlock()
  expect(await wake(db)).toEqual({ free: 1, next: null })
  expect(await db`select from keyhook.wakes`).toHaveLength(0)
  const lanes =
    await db`select head_seq::int, due_at <= now() as due from keyhook.lanes where webhook_id = ${lockedHook.id}`
  expect(lanes).toEqual([{ head_seq: 3, due: true }])
})

test('two dispatchers that wake at the same time share the wakes and lose none', async () => {
  const { world } = await twoOrganizations()
  const { db } = world
  for (let i = 0; i < 20; i++) await world.publishOne()
  await Promise.all(Array.from({ length: 4 }, () => wake(db)))
  await wake(db)
  expect(await db`select from keyhook.wakes`).toHaveLength(0)
  const lanes = await db`select head_seq::int, due_at <= now() as due from keyhook.lanes where org_id = ${world.orgId}`
  expect(lanes).toEqual([{ head_seq: 20, due: true }])
})
