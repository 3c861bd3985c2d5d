import type { PgBoss } from 'pg-boss'
import type { PlatformJob } from '../../domain/platform-job.ts'
import { schema } from './queue-names.ts'

type Attempt = { id: string; queue: string; retryCount: number }

const active = `select id, name as queue, retry_count as "retryCount" from ${schema}.job where state = 'active'`

/**
 * Jobs that a predecessor of this process had in hand when it was killed: there is no need to wait until their signs of
 * life are missed. Only for queues that no other process works on, or whose jobs may well be done by two at a time.
 */
export async function reclaimAll(boss: PgBoss, queues: readonly string[]): Promise<number> {
  const { rows } = await boss.getDb().executeSql(`${active} and name = any($1::text[])`, [queues])
  return tryAgainNow(boss, rows)
}

/**
 * Jobs that nobody has given a sign of life for. pg-boss does this too, but no sooner than ten seconds after the last
 * one, and in rounds of its own.
 */
export async function reclaimSilent(boss: PgBoss, queues: readonly string[], silentSeconds: number): Promise<number> {
  const { rows } = await boss.getDb().executeSql(
    `${active} and name = any($1::text[]) and heartbeat_seconds is not null
       and heartbeat_on < clock_timestamp() - make_interval(secs => $2)`,
    [queues, silentSeconds],
  )
  return tryAgainNow(boss, rows)
}

async function tryAgainNow(boss: PgBoss, attempts: readonly Attempt[]): Promise<number> {
  for (const { queue, ...attempt } of attempts) {
    // With the attempt's number: whoever has begun the next one meanwhile goes on undisturbed.
    await boss.fail(queue, attempt, { message: 'its process was killed' })
    // Failing puts it off, as after a failure of its own; but nothing was wrong with it.
    await boss.update(queue, undefined, { id: attempt.id, startAfter: new Date() })
  }
  return attempts.length
}

export type StrandedJob = { id: string; queue: string; data: PlatformJob; sourceOutput: object | null }

/** Everything in these queues that has not come to its end, begun or not. */
export async function unsettledJobs(boss: PgBoss, queues: readonly string[]): Promise<StrandedJob[]> {
  const { rows } = await boss.getDb().executeSql(
    `select id, name as queue, data, source_output as "sourceOutput" from ${schema}.job
     where name = any($1::text[]) and state < 'completed'
     order by created_on`,
    [queues],
  )
  return rows
}
