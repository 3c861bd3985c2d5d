import { expect, test } from 'vitest'
import { requestRedelivery } from '../../src/delivery/lane-sql.ts'
import { publishEvents } from '../../src/delivery/publish.ts'
import { isLaneHeld, releaseLanes, renewLanes } from '../../src/delivery/statements/held-lanes.ts'
import { firstWake, wakeLanes } from '../../src/delivery/statements/wake.ts'
import { deleteWebhook } from '../../src/webhooks/sql.ts'
import { holdOpen } from '../kit/hold-open.ts'
import { until } from '../kit/until.ts'
import { begin, firstAttempt, lease, leasedLane, leaseMs, settleFailed, wake } from './support/leased-lane.ts'

const nothing = { lanes: new Set(), begun: new Map() }

test('a valid lease is not granted again; an expired one is, with a higher token', async () => {
  const { db, lane } = await leasedLane()
  expect(await lease(db, { owner: 'b' })).toEqual([])
  await db`update keyhook.lanes set due_at = now() - interval '1 second'`
  const [taken] = await lease(db, { owner: 'b' })
  expect(taken!.laneId).toBe(lane.laneId)
  expect(taken!.token).toBeGreaterThan(lane.token)
})

test('lanes are leased in turns across organizations, without those that are excluded', async () => {
  const { world, db, lane } = await leasedLane()
  const other = await world.organization('Other')
  const person = await world.person([{ orgId: other, role: 'owner' }])
  for (let i = 0; i < 5; i++) await world.addWebhook('https://example.com/')
  await world.addWebhook('https://example.com/', { org: other, user: person.userId })
  await db`update keyhook.lanes set due_at = now() - case when org_id = ${other} then 0 else 1 end * interval '1 hour'`
  const orgs = (lanes: { orgId: string }[]) => new Set(lanes.map((one) => one.orgId))
  expect(orgs(await lease(db, { lanesMax: 2 }))).toEqual(new Set([world.orgId, other]))
  await db`update keyhook.lanes set due_at = now()`
  expect(orgs(await lease(db, { exceptOrgs: [world.orgId] }))).toEqual(new Set([other]))
  await db`update keyhook.lanes set due_at = now()`
  const rest = await lease(db, { exceptLanes: [lane.laneId] })
  expect(rest).toHaveLength(6)
  expect(rest.map((one) => one.laneId)).not.toContain(lane.laneId)
})

test('a lease that is lost in a crash of the server is not granted again with the same token', async () => {
  const { db, lane, first } = await leasedLane()
  // The row as it was before: granting a lease does not wait for the disk.
  await db`update keyhook.lanes set lease_token = ${lane.token - 1}, lease_owner = null, due_at = now()`
  const [again] = await lease(db, { owner: 'b' })
  expect(again!.token).toBeGreaterThan(lane.token)
  expect(await begin(db, first)).toEqual(nothing)
})

test('a wake for very many events has the same effect as one for few, and wakes no lane that has begun them', async () => {
  const { world, db, lane } = await leasedLane()
  const others = [await world.addWebhook('https://example.com/b'), await world.addWebhook('https://example.com/c')]
  await world.publishOne()
  await wake(db)
  await db`update keyhook.lanes set head_seq = 1`
  await db`update keyhook.lanes set lease_owner = null, due_at = null, cursor_seq = 2 where id <> ${lane.laneId}`
  await db`update keyhook.lanes set cursor_seq = 0 where webhook_id = ${others[0]!.id}`
  await db`insert into keyhook.wakes values (${world.orgId}, 1, 5000)`
  await wake(db)
  expect(await db`select head_seq::int from keyhook.lanes`).toEqual(Array(3).fill({ head_seq: 2 }))
  expect(await db`select webhook_id from keyhook.lanes where due_at <= now()`).toEqual([{ webhook_id: others[0]!.id }])
})

test('a lane that has begun everything is not locked by a wake', async () => {
  const { world, db, first, lane } = await leasedLane()
  await world.publishOne()
  await begin(db, first, firstAttempt(lane, 2))
  await db.begin(async (tx) => {
    await tx`select from keyhook.lanes for update`
    expect(await wake(db)).toEqual({ free: 0, next: null })
  })
  expect(await db`select from keyhook.wakes`).toHaveLength(0)
  await world.publishOne()
  await wake(db)
  expect(await db`select head_seq::int from keyhook.lanes`).toEqual([{ head_seq: 3 }])
})

test('wakes of an organization with a locked lane stay, and those of others are taken behind them', async () => {
  const { world, db } = await leasedLane()
  const other = await world.organization('Other')
  const person = await world.person([{ orgId: other, role: 'owner' }])
  const webhook = await world.addWebhook('https://example.com/', { org: other, user: person.userId })
  for (let i = 0; i < 3; i++) await world.publishOne()
  await world.publishOne(other)
  const unlock = await holdOpen(db, (tx) => tx`select from keyhook.lanes where org_id = ${world.orgId} for update`)
  let free = 0
  for (let next: typeof firstWake | null = firstWake; next !== null; ) {
    const woken = await wakeLanes(db, next, 1)
    free += woken.free
    next = woken.next
  }
  expect(free).toBe(1)
  expect(await db`select webhook_id from keyhook.lanes where due_at <= now()`).toEqual([{ webhook_id: webhook.id }])
  expect(await db`select first_seq::int from keyhook.wakes order by 1`).toEqual(
    [2, 3, 4].map((first_seq) => ({ first_seq })),
  )
  await unlock()
  await wake(db)
  expect(await db`select from keyhook.wakes`).toHaveLength(0)
  expect(await db`select head_seq::int from keyhook.lanes where org_id = ${world.orgId}`).toEqual([{ head_seq: 4 }])
})

test('waking lanes does not wait for the disk', async () => {
  const { world, db } = await leasedLane()
  let unflushed = 0
  // Sometimes another session has flushed it already.
  for (let i = 0; i < 10; i++) {
    await world.publishOne()
    await wake(db)
    const [row] = await db<{ bytes: number }[]>`
      select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), pg_current_wal_flush_lsn())::int as bytes`
    if (row!.bytes > 0) unflushed += 1
  }
  expect(unflushed).toBeGreaterThan(0)
})

test('a deletion waits for an attempt that is beginning, and does not skip its lane', async () => {
  const { world, db, webhook } = await leasedLane()
  const unlock = await holdOpen(db, (tx) => tx`select from keyhook.lanes for no key update`)
  const deletion = db.begin((tx) => deleteWebhook(tx, world.orgId, webhook.id))
  await until(async () => (await db`select from pg_locks where not granted`).length > 0)
  await unlock()
  expect(await deletion).toBe(true)
  expect(await db`select from keyhook.lanes where ended_at is not null`).toHaveLength(1)
})

test('the lane of a deleted webhook stays due only while an attempt has no outcome', async () => {
  for (const [how, expected] of [
    ['free', 'never'],
    ['free with an attempt in flight', 'now'],
    ['leased', 'later'],
  ] as const) {
    const { world, db, webhook, first, held } = await leasedLane()
    if (how !== 'free') await begin(db, first)
    if (how !== 'leased') await releaseLanes(db, [{ ...held, abandon: true }])
    await db`insert into keyhook.retries values (${first.laneId}, 9, ${world.orgId}, now(), 1, 1)`
    await db.begin((tx) => deleteWebhook(tx, world.orgId, webhook.id))
    const [row] = await db`
      select case when due_at is null then 'never' when due_at <= now() then 'now' else 'later' end as due from keyhook.lanes`
    expect(row!.due, how).toBe(expected)
    expect(await db`select from keyhook.retries`, how).toHaveLength(0)
  }
})

test('a lease is valid for the server that granted it: another begins, renews and releases nothing under it', async () => {
  const { db, lane, first, held } = await leasedLane()
  await begin(db, first)
  const second = firstAttempt(lane, 2)
  // A standby with everything up to the first attempt has taken over: it started at another time.
  await db`update keyhook.lanes set lease_server = lease_server - interval '1 second', due_at = now()`
  expect(await begin(db, second)).toEqual(nothing)
  expect(await renewLanes(db, [held], leaseMs)).toEqual([])
  expect(await releaseLanes(db, [held])).toEqual([])
  expect(await isLaneHeld(db, held)).toBe(false)
  expect(await releaseLanes(db, [{ ...held, abandon: true }])).toEqual([lane.laneId])
  // The standby knows the first attempt, which may be settled until the lane is leased again; it does not know the second.
  expect([await settleFailed(db, second), await settleFailed(db, first)]).toEqual([0, 1])
})

test('renewing extends leases, returns what the holder has to know, and keeps locked lanes', async () => {
  const { world, db, webhook, lane, held } = await leasedLane()
  await db`update keyhook.lanes set due_at = now()`
  await db.begin((tx) => requestRedelivery(tx, lane.laneId))
  const state = { ended: false, paused: false, suspended: false, changed: null }
  const renewed = { laneId: lane.laneId, redeliveryRequests: 1, ...state }
  expect(await renewLanes(db, [held], leaseMs)).toEqual([renewed])
  expect(await lease(db, { owner: 'b' })).toEqual([])
  const unlock = await holdOpen(db, (tx) => tx`select from keyhook.lanes for update`)
  expect(await renewLanes(db, [held], leaseMs)).toEqual([renewed])
  await unlock()
  await db.begin((tx) => deleteWebhook(tx, world.orgId, webhook.id))
  expect(await renewLanes(db, [held], leaseMs)).toEqual([{ ...renewed, ended: true }])
  expect(await renewLanes(db, [{ ...held, token: held.token - 1 }], leaseMs)).toEqual([])
})

test('a lane with a new delivery or a redelivery request is not released', async () => {
  const { db, first, held } = await leasedLane()
  expect(await releaseLanes(db, [held])).toEqual([])
  await begin(db, first)
  await settleFailed(db, first, null)
  await db.begin((tx) => requestRedelivery(tx, held.laneId))
  expect(await releaseLanes(db, [held])).toEqual([])
  const seen = { ...held, redeliveryRequests: held.redeliveryRequests + 1 }
  expect(await releaseLanes(db, [seen])).toEqual([held.laneId])
  expect(await db`select due_at, lease_owner from keyhook.lanes`).toEqual([{ due_at: null, lease_owner: null }])
})

test('a released lane is due when its next retry is', async () => {
  const { db, first, held } = await leasedLane()
  await begin(db, first)
  await settleFailed(db, first, 3_600_000)
  expect(await releaseLanes(db, [held])).toEqual([held.laneId])
  const rows = await db`select from keyhook.lanes l join keyhook.retries r on r.lane_id = l.id and r.due_at = l.due_at`
  expect(rows).toHaveLength(1)
})

test('a publisher whose transaction is still open does not hide what others of the organization have committed', async () => {
  const { world, db } = await leasedLane()
  await world.publishOne()
  const event = { id: 'evt_x', type: 'database.created', body: '{}' }
  const commit = await holdOpen(db, (tx) => publishEvents(tx, world.orgId, [event]))
  const head = async () => (await db<{ head: number }[]>`select head_seq::int as head from keyhook.lanes`)[0]!.head
  await wake(db)
  expect(await head()).toBe(2)
  await commit()
  await wake(db)
  expect(await head()).toBe(3)
})
