import type { Database, Transact } from '../../../src/db/database.ts'
import { createWebhookHealth } from '../../../src/webhooks/health.ts'
import { until } from '../../kit/until.ts'

/** The same as if so many hours had passed for the webhooks and what waits for them. */
export const passHours = (db: Database, hours: number) =>
  db.begin(async (tx) => {
    await tx`
      update keyhook.lanes set failing_since = failing_since - make_interval(hours => ${hours}),
        suspended_until = suspended_until - make_interval(hours => ${hours}), probe_at = probe_at - make_interval(hours => ${hours}),
        due_at = case when lease_owner is null then due_at - make_interval(hours => ${hours}) else due_at end`
    await tx`update keyhook.retries set due_at = due_at - make_interval(hours => ${hours})`
  })

/** What the workers of that many nodes do at the same time. */
export async function runHealthWorkers(transact: Transact, { nodes = 2, suspendAfterHours = 24 } = {}): Promise<void> {
  const errors: unknown[] = []
  const workers = Array.from({ length: nodes }, () =>
    createWebhookHealth({ transact, suspendAfterHours, onError: (error) => errors.push(error) }),
  )
  await Promise.all(workers.map((worker) => worker.run()))
  await Promise.all(workers.map((worker) => worker.close()))
  if (errors.length > 0) throw errors[0]
}

/**
 * The same as if what fails had failed for a day. No retry becomes due: a dispatcher would send it before the suspension. A lane that
 * it has locked is suspended by a later run.
 */
export async function suspendWebhooks(db: Database, transact: Transact): Promise<void> {
  await db`update keyhook.lanes set failing_since = failing_since - interval '24 hours'`
  await until(async () => {
    await runHealthWorkers(transact)
    const left = await db`select from keyhook.lanes where failing_since is not null and suspended_until is null`
    return left.length === 0
  })
}
