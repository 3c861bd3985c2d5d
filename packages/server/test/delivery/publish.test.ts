import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { operator } from '../../src/access/audit.ts'
import { createTransact, type Transact } from '../../src/db/database.ts'
import type { NewEvent } from '../../src/delivery/events.ts'
import { createIntake } from '../../src/delivery/intake.ts'
import { publish, publishSample } from '../../src/delivery/publish.ts'
import { newId, type OrgId, type UserId } from '../../src/lib/ids.ts'
import { deleteWebhook, insertWebhook } from '../../src/webhooks/sql.ts'
import { startApi, type TestApi } from '../kit/installation.ts'
import { until } from '../kit/until.ts'

let api: TestApi
let orgId: OrgId
let userId: UserId
let transact: Transact
let hinted: OrgId[] = []

beforeAll(async () => {
  api = await startApi()
  orgId = await api.organization()
  transact = createTransact(api.db, (orgIds) => void hinted.push(...orgIds))
  userId = (await api.person([{ orgId, role: 'owner' }])).userId
})
afterAll(() => api.close())

const created = (): NewEvent => ({ orgId, type: 'database.created', data: { database_id: 'db_1', name: 'main' } })

const addWebhook = (types: NewEvent['type'][]) =>
  api.db.begin(async (tx) => {
    const id = newId('wh')
    const webhook = { id, url: 'https://example.com/', eventTypes: types, createdBy: userId }
    await insertWebhook(tx, orgId, { ...webhook, secret: api.masterKeys.seal(randomBytes(9).toString('hex'), id) }, 1e6)
    return id
  })

const deliveriesOf = async (eventId: string): Promise<string[]> => {
  const rows = await api.db<{ webhook_id: string }[]>`
    select l.webhook_id from keyhook.events e
    join keyhook.deliveries d on d.org_id = e.org_id and d.event_seq = e.seq
    join keyhook.lanes l on l.id = d.lane_id
    where e.org_id = ${orgId} and e.id = ${eventId}`
  return rows.map((row) => row.webhook_id)
}

test('an event goes to the webhooks that are subscribed to its type, once each', async () => {
  const subscribed = await addWebhook(['database.created', 'invoice.paid'])
  await addWebhook(['backup.failed'])
  hinted = []
  const id = await transact((tx) => publish(tx, created()))
  expect(await deliveriesOf(id)).toEqual([subscribed])
  expect(hinted).toEqual([orgId])
})

test('a test event goes to one webhook, subscribed or not, is marked in its body, and is hinted', async () => {
  const webhookId = await addWebhook(['backup.failed'])
  hinted = []
  const type = 'database.created'
  const id = await transact((tx) => publishSample(tx, { orgId, webhookId }, { type, data: { name: 'main' } }))
  expect(await deliveriesOf(id)).toEqual([webhookId])
  expect(hinted).toEqual([orgId])
  const [event] = await api.db<{ body: string; sample: boolean; seq: string }[]>`
    select body, sample, seq from keyhook.events where org_id = ${orgId} and id = ${id}`
  expect(event!.sample).toBe(true)
  expect(JSON.parse(event!.body)).toMatchObject({ id, type, data: { test: true, name: 'main' } })
  const wakes = await api.db`select last_seq from keyhook.wakes where org_id = ${orgId} and first_seq = ${event!.seq}`
  expect(wakes).toEqual([{ last_seq: event!.seq }])
})

/*
 * Invariant 1. Seen to fail when the event is written on another connection than the caller's (both tests), and when the
 * deliveries are (the second).
 */
test('a transaction that rolls back leaves neither event nor delivery, nor a gap in the sequence', async () => {
  const last = async () =>
    (await api.db<{ seq: string }[]>`select max(seq) as seq from keyhook.events where org_id = ${orgId}`)[0]?.seq
  await transact((tx) => publish(tx, created()))
  const before = Number(await last())
  const failing = transact(async (tx) => {
    await publish(tx, created())
    throw new Error('the job failed after all')
  })
  await expect(failing).rejects.toThrow('after all')
  expect(Number(await last())).toBe(before)
  await transact((tx) => publish(tx, created()))
  expect(Number(await last())).toBe(before + 1)
})

test('an event becomes visible together with all its deliveries', async () => {
  await addWebhook(['database.created'])
  let over = false
  const incomplete: unknown[] = []
  const watching = (async () => {
    while (!over) {
      incomplete.push(
        ...(await api.db`
          select e.seq from keyhook.events e
          where e.org_id = ${orgId} and e.type = 'database.created' and e.seq = (
            select max(seq) from keyhook.events where org_id = ${orgId}
          ) and not exists (select 1 from keyhook.deliveries d where d.org_id = e.org_id and d.event_seq = e.seq)`),
      )
    }
  })()
  for (let i = 0; i < 100; i++) await transact((tx) => publish(tx, created()))
  over = true
  await watching
  expect(incomplete).toEqual([])
})

/*
 * Seen to fail when the sequence is taken and the deliveries are written in one statement: `added` then gets the event
 * before and misses the one after it, and `removed` gets one that is newer than its deletion.
 */
test('an event goes to the webhooks that exist once its publisher has the lock, not when it began to wait', async () => {
  const removed = await addWebhook(['database.created'])
  let waiting: Promise<string> | undefined
  const { added, before } = await transact(async (tx) => {
    await publish(tx, created())
    waiting = transact((other) => publish(other, created()))
    await until(async () => (await blocked()).length === 1)
    const added = await addWebhook(['database.created'])
    await api.db.begin((other) => deleteWebhook(other, orgId, removed))
    return { added, before: await publish(tx, created()) }
  })
  const after = await waiting!
  expect(await deliveriesOf(before)).toContain(added)
  expect(await deliveriesOf(after)).toContain(added)
  expect(await deliveriesOf(after)).not.toContain(removed)
})

const blocked = () => api.db`
  select pid from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0`

// Invariant 2. Seen to fail without the primary key of `deliveries`.
test('the unique key refuses a second delivery of one event to one webhook', async () => {
  const id = await transact((tx) => publish(tx, created()))
  const again = api.db`
    insert into keyhook.deliveries (org_id, event_seq, lane_id)
    select d.org_id, d.event_seq, d.lane_id from keyhook.deliveries d
    join keyhook.events e on e.org_id = d.org_id and e.seq = d.event_seq where e.id = ${id}`
  await expect(again).rejects.toMatchObject({ code: '23505' })
})

test('the same id twice is one event; with other content it is a conflict', async () => {
  const { accept } = createIntake({ db: api.db, hint() {} })
  const send = (data: object) =>
    accept({ actor: operator, events: [{ orgId, type: 'invoice.paid', data, id: 'inv-7' }] })
  expect(await send({ a: 1, b: [2] })).toEqual(['inv-7'])
  expect(await send({ b: [2], a: 1 })).toEqual(['inv-7'])
  await expect(send({ a: 2 })).rejects.toMatchObject({ code: 'events.id_taken' })
  const [row] = await api.db`select count(*)::int as count from keyhook.events where id = 'inv-7'`
  expect(row?.count).toBe(1)
  // The second request changed nothing.
  const audit = await api.db`select details from keyhook.audit_entries where target_id = 'inv-7'`
  expect(audit).toEqual([{ details: { events: 1 } }])
})

// Less than half a second here; the bound is for a wrong plan, which took fifteen.
test('one event goes to 10,000 webhooks at once', async () => {
  const org = await api.organization('Fan-out')
  await api.db`
    with made as (
      insert into keyhook.webhooks (org_id, id, url, event_types, secret_key_id, secret_box, created_by)
      select ${org}, 'wh_' || n, 'https://example.com', '{database.created}', 'k', '\\x00', ${userId}
      from generate_series(1, 10000) n returning id, lane_id
    ) insert into keyhook.lanes (id, org_id, webhook_id) select lane_id, ${org}, id from made`
  const id = await transact((tx) => publish(tx, { ...created(), orgId: org }))
  const [row] = await api.db`
    select count(*)::int as count from keyhook.deliveries d
    join keyhook.events e on e.org_id = d.org_id and e.seq = d.event_seq where e.id = ${id}`
  expect(row?.count).toBe(10_000)
})
