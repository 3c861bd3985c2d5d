import type { Database } from '../../../src/db/database.ts'
import { ensurePartitions } from '../../../src/delivery/retention-sql.ts'
import { beginAttempts, type NewAttempt } from '../../../src/delivery/statements/begin.ts'
import { fetchDue } from '../../../src/delivery/statements/fetch.ts'
import { releaseLanes } from '../../../src/delivery/statements/held-lanes.ts'
import {
  type LeasedLane,
  type LeaseRequest,
  leaseLanes,
  type UsedLane,
} from '../../../src/delivery/statements/lease.ts'
import { type AttemptOutcome, settleAttempts } from '../../../src/delivery/statements/settle.ts'
import { firstWake, wakeLanes } from '../../../src/delivery/statements/wake.ts'
import { uuid7 } from '../../../src/lib/ids.ts'
import { deliveryTest, failedOutcome } from './delivery-test.ts'

export const leaseMs = 60_000
export const probeMs = 3_600_000

export const lease = (db: Database, request: Partial<LeaseRequest> = {}): Promise<LeasedLane[]> =>
  leaseLanes(db, { owner: 'a', lanesMax: 10, leaseMs, exceptOrgs: [], exceptLanes: [], ...request })

export const wake = (db: Database) => wakeLanes(db, firstWake, 100)

export const begin = (db: Database, ...attempts: NewAttempt[]) => beginAttempts(db, attempts, { leaseMs, probeMs })

/** The attempt failed and is due again at once. */
export const settleFailed = async (db: Database, attempt: NewAttempt, retryMs: number | null = 0) =>
  (await settleAttempts(db, [{ attempt, outcome: failedOutcome, tries: attempt.tries + 1, retryMs }])).recorded

export function firstAttempt({ laneId, token, version }: UsedLane, eventSeq = 1): NewAttempt {
  const now = Date.now()
  const what = { laneId, token, version, eventSeq, attempt: 1, tries: 0, early: false, suspended: false }
  return { ...what, attemptId: uuid7(now), startedAtMs: now }
}

/** A lane with one delivery, leased by the test; no dispatcher runs. */
export async function leasedLane() {
  const world = await deliveryTest()
  const { db } = world
  await ensurePartitions(db, Date.now())
  const webhook = await world.addWebhook('https://example.com/')
  await world.publishOne()
  await wake(db)
  const [lane] = await lease(db)
  const { laneId, token, version, redeliveryRequests } = lane!
  return {
    world,
    db,
    webhook,
    lane: lane!,
    first: firstAttempt(lane!),
    held: { laneId, token, version, redeliveryRequests, abandon: false },
  }
}

/**
 * Does what a dispatcher does for all lanes that are due, with one attempt each: `retryMs` undefined succeeds, null fails for
 * good, a number fails and tries again after it.
 */
export async function deliverDue(db: Database, retryMs?: number | null): Promise<void> {
  await wake(db)
  for (const lane of await lease(db)) {
    const { laneId, orgId, cursorSeq: afterSeq } = lane
    const due = await fetchDue(db, [{ laneId, orgId, afterSeq, firstsMax: 100, retriesMax: 100, suspended: false }])
    const attempts = due.map((one) => ({
      ...firstAttempt(lane, one.eventSeq),
      attempt: one.attempts + 1,
      tries: one.tries,
    }))
    await begin(db, ...attempts)
    const outcome: AttemptOutcome = retryMs === undefined ? { ...failedOutcome, status: 'succeeded' } : failedOutcome
    await settleAttempts(
      db,
      attempts.map((attempt) => ({ attempt, outcome, tries: attempt.tries + 1, retryMs: retryMs ?? null })),
    )
    await releaseLanes(db, [{ ...lane, abandon: false }])
  }
}
