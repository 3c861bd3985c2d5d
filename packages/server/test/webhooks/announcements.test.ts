import { beforeEach, expect, test } from 'vitest'
import { operator } from '../../src/domain/audit.ts'
import type { EventType } from '../../src/domain/event-types.ts'
import type { OrgId } from '../../src/kernel/ids.ts'
import { type Announcement, announcedMax } from '../../src/store/delivery/announcements.ts'
import { leaseLanes } from '../../src/store/delivery/lanes.ts'
import { publish } from '../../src/webhooks/publishing/publish.ts'
import { createReporting } from '../../src/webhooks/publishing/reporting.ts'
import { deliveryTest } from './support/delivery-test.ts'

let world: Awaited<ReturnType<typeof deliveryTest>>
/** What was announced, one for each hint. */
let hints: (readonly Announcement[] | null | undefined)[]
let reporting: ReturnType<typeof createReporting>

beforeEach(async () => {
  world = await deliveryTest()
  hints = []
  reporting = createReporting({ db: world.db, waitingMax: 5, hint: (announcements) => void hints.push(announcements) })
})

const addWebhooks = async (org: OrgId, count: number, ...types: EventType[]) => {
  const { userId } = await world.person([{ orgId: org, role: 'owner' }])
  for (let i = 0; i < count; i++) await world.addWebhook('https://example.com/', { org, types, user: userId })
}

const report = (orgId: OrgId, ...types: EventType[]) =>
  reporting.report({ actor: operator, events: types.map((type) => ({ orgId, type, data: {}, id: null })), bytes: 100 })

/** What an organization has published from this event on, as it stands in the tables. */
async function stored(orgId: OrgId, fromSeq = 1) {
  const rows = await world.db<{ seq: string; id: string; type: EventType; body: string; lanes: string[] }[]>`
    select e.seq, e.id, e.type, e.body, array(
      select d.lane_id from keyhook.deliveries d where d.org_id = e.org_id and d.event_seq = e.seq order by d.lane_id
    ) as lanes
    from keyhook.events e where e.org_id = ${orgId} and e.seq >= ${fromSeq} order by e.seq`
  return rows.map(({ seq, lanes, ...event }) => ({ ...event, seq: Number(seq), laneIds: lanes.map(Number) }))
}

const announced = ({ events }: Announcement) =>
  events.map(({ publishedAtMs, laneIds, ...event }) => ({ ...event, laneIds: laneIds.toSorted((a, b) => a - b) }))

test('a publisher says what it has written: numbers, bodies and lanes, and on which server', async () => {
  const { orgId, db } = world
  await addWebhooks(orgId, 2, 'database.created')
  await addWebhooks(orgId, 1, 'backup.failed')
  const data = { database_id: 'db_1', name: 'main' }
  const before = Date.now()
  const { announcement } = await db.begin((tx) => publish(tx, { orgId, type: 'database.created', data }))
  expect(announced(announcement!)).toEqual(await stored(orgId))
  expect(announcement!.events[0]!.laneIds).toHaveLength(2)
  expect(Math.abs(announcement!.events[0]!.publishedAtMs - before)).toBeLessThan(60_000)
  await db`update keyhook.lanes set due_at = now()`
  const [lane] = await leaseLanes(db, { owner: 'a', lanesMax: 1, leaseMs: 1_000 })
  expect(lane!.server).toBe(announcement!.server)
})

// Seen to fail with the server alone: said to a copy, what was overheard took the numbers of its next events, which were never sent.
test('a copy of the database on the same server is another', async () => {
  const copy = await deliveryTest()
  const serverOf = async ({ db }: typeof world) => (await db`select keyhook.server()`)[0]!.server
  expect(await serverOf(copy)).not.toBe(await serverOf(world))
})

test('so does what is reported of one organization, or of several at a time', async () => {
  const orgs = [world.orgId, await world.organization(), await world.organization()]
  for (const [n, org] of orgs.entries()) await addWebhooks(org, n, 'invoice.paid')
  await report(orgs[2]!, 'invoice.paid', 'backup.failed', 'invoice.paid')
  for (const org of orgs.slice(0, 2)) await report(org, 'backup.failed')
  expect(hints.map((one) => one!.map(announced))).toEqual([
    [await stored(orgs[2]!)],
    [await stored(orgs[0]!)],
    [await stored(orgs[1]!)],
  ])
  hints = []
  await Promise.all(orgs.flatMap((org) => [report(org, 'invoice.paid'), report(org, 'backup.failed')]))
  expect(hints).toHaveLength(1)
  const said = new Map(hints[0]!.map((one) => [one.orgId, announced(one)]))
  const firsts = [2, 2, 4]
  for (const [n, org] of orgs.entries()) expect(said.get(org)).toEqual(await stored(org, firsts[n]))
})

test('nothing is announced that goes to many webhooks, and a hint that announces nothing says so', async () => {
  const { orgId, db } = world
  const other = await world.organization()
  await addWebhooks(orgId, announcedMax, 'database.created')
  await report(other, 'backup.failed')
  const event = { orgId, type: 'database.created' as const, data: { database_id: 'db_1', name: 'main' } }
  const announcementOf = async () => (await db.begin((tx) => publish(tx, event))).announcement
  expect((await announcementOf())!.events[0]!.laneIds).toHaveLength(announcedMax)
  await addWebhooks(orgId, 1, 'database.created')
  expect(await announcementOf()).toBeNull()
  hints = []
  await report(orgId, 'database.created')
  await Promise.all([report(orgId, 'database.created'), report(other, 'database.created')])
  expect(hints).toEqual([null, null])
})

test('a name that is known already is announced by nobody', async () => {
  const events = [{ orgId: world.orgId, type: 'invoice.paid' as const, data: {}, id: 'name' }]
  await reporting.report({ actor: operator, events, bytes: 100 })
  await reporting.report({ actor: operator, events, bytes: 100 })
  expect(hints.map((one) => one?.length ?? null)).toEqual([1, null])
})

test('what nodes of earlier versions say to publish is still understood', async () => {
  const { orgId, db } = world
  await addWebhooks(orgId, 1, 'invoice.paid')
  const types = ['invoice.paid']
  const say = (id: string) => db`select keyhook.publish(${orgId}, ${[id]}, ${types}, ${['{}']}, ${[id]}) as taken`
  expect([...(await say('a')), ...(await say('a'))]).toEqual([{ taken: [] }, { taken: ['a'] }])
  expect(
    await db`
    select keyhook.publish_where_free(${[orgId]}, ${['b']}, ${types}, ${['{}']}, ${['b']}) as free`,
  ).toEqual([{ free: [orgId] }])
  expect((await stored(orgId)).map(({ id, laneIds }) => [id, laneIds.length])).toEqual([
    ['a', 1],
    ['b', 1],
  ])
  expect(await db`select keyhook.publish('org_none', ${['c']}, ${types}, ${['{}']}, '{}') as taken`).toEqual([
    { taken: null },
  ])
})
