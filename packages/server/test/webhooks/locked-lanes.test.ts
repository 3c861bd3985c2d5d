import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { leaseLanes } from '../../src/store/delivery/lanes.ts'
import { readNews, wakeLanes } from '../../src/store/delivery/news.ts'
import { holdOpen } from '../support/hold-open.ts'
import { deliveryTest, until } from './support/delivery-test.ts'
import { receiverFor } from './support/receiver.ts'

/** Takes the lock of a webhook's lane, until the function that it returns is called. */
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

// Seen to fail without the bound of the waiting: none of the twenty arrives.
test.each(['held by a dispatcher', 'free'])(
  'a lane that is %s and that somebody has locked holds up nobody but itself, and loses nothing',
  { timeout: 60_000 },
  async (whose) => {
    const { world, other, lockedHook, arrived } = await twoOrganizations()
    await world.startDispatcher()
    await world.publishOne(other)
    await until(() => arrived('/other') === 1)
    if (whose !== 'free') {
      await world.publishOne()
      await until(() => arrived('/locked') === 1)
    }
    const before = arrived('/locked')
    const unlock = await lockLane(world.db, lockedHook.id)
    await world.publishOne()
    for (let i = 0; i < 20; i++) {
      await world.publishOne(other)
      // Long enough in all for leases to run out: they are kept meanwhile.
      await sleep(200)
    }
    await until(() => arrived('/other') === 21, 'what is for the others')
    expect(arrived('/locked')).toBe(before)
    await unlock()
    await until(() => arrived('/locked') === before + 1, 'what waited for the lock')
    await sleep(300)
    expect([arrived('/locked'), arrived('/other')]).toEqual([before + 1, 21])
  },
)

// Seen to fail without the new wake, and with what two of them stand for read as often.
test('a wake that is left for a locked lane stands for all that it was not told, and nothing is read twice because of it', async () => {
  const { world, lockedHook } = await twoOrganizations()
  const { db } = world
  await world.publishOne()
  await wakeLanes(db, 10)
  await leaseLanes(db, { owner: 'us', lanesMax: 10, leaseMs: 60_000 })
  for (let i = 0; i < 3; i++) await world.publishOne()
  const unlock = await lockLane(db, lockedHook.id)
  // Another dispatcher has the wake in the middle, and comes to nothing.
  await db
    .begin(async (tx) => {
      await tx`delete from keyhook.wakes where org_id = ${world.orgId} and first_seq = 3`
      expect((await wakeLanes(db, 10, 'pass_over')).lanes).toEqual([])
      throw new Error('nothing')
    })
    .catch(() => {})
  const wakes = () => db`select first_seq::int as first, last_seq::int as last from keyhook.wakes order by 1`
  expect(await wakes()).toEqual([
    { first: 2, last: 4 },
    { first: 3, last: 3 },
  ])
  const { lanes } = await readNews(db, 'us', new Map(), 10)
  expect(lanes.map(({ fresh }) => fresh.map((one) => one.eventSeq))).toEqual([[2, 3, 4]])
  await wakeLanes(db, 10, 'pass_over')
  expect(await wakes()).toEqual([{ first: 2, last: 4 }])
  await unlock()
  expect((await wakeLanes(db, 10)).lanes.map((lane) => lane.headSeq)).toEqual([4])
  expect(await wakes()).toEqual([])
})
