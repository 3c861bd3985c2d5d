import { expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { countRecoverable, insertRecovery, stepRecovery } from '../../src/delivery/redelivery-sql.ts'
import { ensurePartitions } from '../../src/delivery/retention-sql.ts'
import { newId, type OrgId, uuid7, type WebhookId } from '../../src/lib/ids.ts'
import { until } from '../kit/until.ts'
import { deliveryTest } from './support/delivery-test.ts'

const hourMs = 3_600_000
const anHour = () => ({ since: new Date(Date.now() - hourMs), until: new Date(Date.now() + hourMs) })

async function laneOf(db: Database, webhookId: WebhookId): Promise<number> {
  const [row] = await db<{ id: string }[]>`select id from keyhook.lanes where webhook_id = ${webhookId}`
  return Number(row!.id)
}

/** Deliveries of one webhook that failed and are not tried again. */
async function failedDeliveries(db: Database, orgId: OrgId, laneId: number, count: number): Promise<void> {
  await ensurePartitions(db, Date.now())
  await db`insert into keyhook.event_counters values (${orgId}, ${count}, ${count})`
  await db`
    insert into keyhook.events (org_id, seq, sequence, id, type, body)
    select ${orgId}, n, n, 'e-' || n, 'database.created', '{}' from generate_series(1, ${count}) n`
  await db`insert into keyhook.deliveries (org_id, event_seq, lane_id) select ${orgId}, n, ${laneId} from generate_series(1, ${count}) n`
  await db`update keyhook.lanes set head_seq = ${count}, cursor_seq = ${count} where id = ${laneId}`
  const ids = Array.from({ length: count }, () => uuid7(Date.now()))
  await db`
    insert into keyhook.attempts (org_id, lane_id, id, event_seq, attempt, status, started_at, request_headers)
    select ${orgId}, ${laneId}, i.id, i.n, 1, 'failed', now(), '{}' from unnest(${ids}::uuid[]) with ordinality as i (id, n)`
}

async function world() {
  const { db, organization, person, addWebhook } = await deliveryTest()
  return {
    db,
    /** An organization with a webhook that has failed deliveries. */
    async failing(count: number) {
      const orgId = await organization()
      const { userId } = await person([{ orgId, role: 'owner' }])
      const { id } = await addWebhook('https://127.0.0.1:1', { org: orgId, user: userId })
      const laneId = await laneOf(db, id)
      await failedDeliveries(db, orgId, laneId, count)
      return { orgId, laneId }
    },
    step: () => db.begin((tx) => stepRecovery(tx)),
    async recover(of: { orgId: OrgId; laneId: number }) {
      const id = newId('rcv')
      await db.begin((tx) => insertRecovery(tx, { ...of, ...anHour(), id }))
      return id
    },
    /** A second attempt of event 2 is in flight. */
    async startAttempt({ orgId, laneId }: { orgId: OrgId; laneId: number }) {
      const id = uuid7(Date.now())
      await db`
        insert into keyhook.in_flight (lane_id, event_seq, org_id, id, lease_token, attempt, try, started_at)
        values (${laneId}, 2, ${orgId}, ${id}, 1, 2, 1, now())`
      return id
    },
    async job(id: string) {
      const [row] = await db<{ redelivered: number; finished: boolean }[]>`
        select redelivered::int, finished_at is not null as finished from keyhook.recoveries where id = ${id}`
      return row!
    },
  }
}

// Fails when the oldest recovery is finished first.
test('recoveries of several organizations take turns, however many one of them has requested', async () => {
  const { failing, recover, step, job } = await world()
  const large = await failing(1_700)
  const small = await failing(5)
  for (let i = 0; i < 3; i++) await recover(large)
  const last = await recover(small)
  await step()
  await step()
  expect(await job(last)).toEqual({ redelivered: 5, finished: true })
  while ((await step()) !== null);
})

test('a delivery with an attempt in flight is passed over by a recovery until the attempt has ended', async () => {
  const { db, failing, recover, step, job, startAttempt } = await world()
  const of = await failing(3)
  const attemptId = await startAttempt(of)
  expect(await countRecoverable(db, { ...of, ...anHour() })).toBe(2)
  const id = await recover(of)
  expect(await step()).toBe(of.orgId)
  expect(await job(id)).toEqual({ redelivered: 2, finished: false })
  // Not at once again.
  expect(await step()).toBeNull()
  await until(step)
  expect(await job(id)).toEqual({ redelivered: 2, finished: false })
  await db`delete from keyhook.in_flight`
  await db`
    insert into keyhook.attempts (org_id, lane_id, id, event_seq, attempt, status, started_at, request_headers)
    values (${of.orgId}, ${of.laneId}, ${attemptId}, 2, 2, 'failed', now(), '{}')`
  await until(step)
  expect(await job(id)).toEqual({ redelivered: 3, finished: true })
  expect(await db`select event_seq::int, attempt, try from keyhook.retries order by 1`).toEqual([
    { event_seq: 1, attempt: 1, try: 0 },
    { event_seq: 2, attempt: 2, try: 0 },
    { event_seq: 3, attempt: 1, try: 0 },
  ])
})

test('a recovery that took a step while the clock was ahead finishes once the clock is right', async () => {
  const { db, failing, recover, step, job, startAttempt } = await world()
  const of = await failing(2)
  await startAttempt(of)
  const id = await recover(of)
  expect(await step()).toBe(of.orgId)
  await db`update keyhook.recoveries set stepped_at = stepped_at + interval '1 year'`
  await db`delete from keyhook.in_flight`
  expect(await step()).toBe(of.orgId)
  expect(await job(id)).toEqual({ redelivered: 2, finished: true })
})

test('a recovery whose webhook is deleted meanwhile finishes', async () => {
  const { db, failing, recover, step, job, startAttempt } = await world()
  const of = await failing(2)
  await startAttempt(of)
  const id = await recover(of)
  await step()
  await db`update keyhook.lanes set ended_at = now() where id = ${of.laneId}`
  await until(step)
  expect(await job(id)).toEqual({ redelivered: 1, finished: true })
})
