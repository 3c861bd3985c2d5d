import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { redeliver } from '../../src/delivery/redelivery-sql.ts'
import { ensurePartitions } from '../../src/delivery/retention-sql.ts'
import { beginAttempts } from '../../src/delivery/statements/begin.ts'
import { fetchDue } from '../../src/delivery/statements/fetch.ts'
import { releaseLanes, renewLanes } from '../../src/delivery/statements/held-lanes.ts'
import type { LeasedLane } from '../../src/delivery/statements/lease.ts'
import { interruptAttempts, settleAttempts } from '../../src/delivery/statements/settle.ts'
import type { OrgId, WebhookId } from '../../src/lib/ids.ts'
import { deleteWebhook } from '../../src/webhooks/sql.ts'
import { until } from '../kit/until.ts'
import { deliveryTest, failedOutcome } from './support/delivery-test.ts'
import { firstAttempt, lease, probeMs, wake } from './support/leased-lane.ts'
import { findLostDeliveries } from './support/lost-deliveries.ts'

const leaseMs = 400
const triesMax = 3

/** Decides what goes wrong: true with this probability. */
type Chance = (probability: number) => boolean

/** One turn of a dispatcher that is killed, paused past its lease and repeats its statements, by chance. */
async function dispatch(db: Database, owner: string, chance: Chance): Promise<void> {
  await wake(db)
  const leased = await lease(db, { owner, leaseMs, lanesMax: 3 })
  const ready = new Set(await interruptAttempts(db, leased))
  await Promise.all(leased.filter((lane) => ready.has(lane.laneId)).map((lane) => sendFrom(db, lane, chance)))
}

async function sendFrom(db: Database, lane: LeasedLane, chance: Chance): Promise<void> {
  const { laneId, orgId, cursorSeq: afterSeq } = lane
  const due = await fetchDue(db, [{ laneId, orgId, afterSeq, firstsMax: 3, retriesMax: 3, suspended: false }])
  const given = due.map((one) => ({
    ...firstAttempt(lane, one.eventSeq),
    attempt: one.attempts + 1,
    tries: one.tries,
  }))
  if (given.length > 0) {
    let { begun } = await beginAttempts(db, given, { leaseMs, probeMs })
    if (chance(0.1)) ({ begun } = await beginAttempts(db, given, { leaseMs, probeMs }))
    if (chance(0.1)) return
    if (chance(0.05)) await sleep(2 * leaseMs)
    else if (chance(0.2)) await renewLanes(db, [lane], leaseMs)
    const settled = given
      .filter((one) => begun.has(one.attemptId))
      .map((attempt) => {
        const tries = begun.get(attempt.attemptId)! + 1
        const hasFailed = chance(0.3)
        const outcome = { ...failedOutcome, status: hasFailed ? ('failed' as const) : ('succeeded' as const) }
        return { attempt, outcome, tries, retryMs: hasFailed && tries < triesMax ? 20 : null }
      })
    const { postponed } = await settleAttempts(db, settled)
    // What waited for a locked lane may be recorded now, and nothing else.
    if (chance(0.1)) expect((await settleAttempts(db, settled)).recorded).toBeLessThanOrEqual(postponed.size)
  }
  const held = { laneId, token: lane.token, redeliveryRequests: lane.redeliveryRequests }
  // There may be more to send. Without `abandon`, release keeps such a lane until its lease expires.
  await releaseLanes(db, [{ ...held, abandon: given.length > 0 && !chance(0.3) }])
}

async function requestRedelivery(db: Database, orgId: OrgId): Promise<void> {
  const [attempt] = await db<{ id: string; webhook_id: WebhookId }[]>`
    select a.id, l.webhook_id from keyhook.attempts a join keyhook.lanes l on l.id = a.lane_id order by random() limit 1`
  if (attempt) await db.begin((tx) => redeliver(tx, orgId, attempt.webhook_id, attempt.id))
}

test('dispatchers that crash, pause and repeat statements lose no delivery and number no attempt twice', async () => {
  const world = await deliveryTest()
  const { db, orgId } = world
  await ensurePartitions(db, Date.now())
  const webhooks: { id: WebhookId }[] = []
  for (let i = 0; i < 6; i++) webhooks.push(await world.addWebhook('https://example.com/'))
  let isOver = false
  const repeat = async (work: () => Promise<unknown>) => {
    while (!isOver) await work()
  }
  const chance: Chance = (probability) => Math.random() < probability
  const lost: unknown[] = []
  const running = Promise.all([
    ...['a', 'b', 'c'].map((owner) => repeat(() => dispatch(db, owner, chance))),
    repeat(async () => lost.push(...(await findLostDeliveries(db)))),
    repeat(() => requestRedelivery(db, orgId)),
  ])
  const events = 60
  for (let i = 0; i < events; i++) {
    await world.publishOne()
    if (i === events / 2) await db.begin((tx) => deleteWebhook(tx, orgId, webhooks[0]!.id))
    await sleep(20)
  }
  isOver = true
  await running
  expect(lost).toEqual([])

  await until(async () => {
    await dispatch(db, 'd', () => false)
    return (await db`select from keyhook.lanes where due_at is not null`).length === 0
  })
  expect(await db`select from keyhook.in_flight`).toHaveLength(0)
  const unfinished = await db`
    select d.event_seq, w.id, array_agg(a.status order by a.attempt) as outcomes
    from keyhook.deliveries d join keyhook.webhooks w on w.lane_id = d.lane_id and w.deleted_at is null
    left join keyhook.attempts a on a.lane_id = d.lane_id and a.event_seq = d.event_seq
    group by d.event_seq, w.id
    having max(a.attempt) is null or max(a.attempt) <> count(*)
      or (not bool_or(a.status = 'succeeded') and count(*) filter (where a.status = 'failed') < ${triesMax})`
  expect(unfinished).toEqual([])
})
