import type { PgBoss } from 'pg-boss'
import type { PlatformJob } from '../../domain/platform-job.ts'
import { schema } from './queue-names.ts'

type Attempt = { id: string; queue: string; retryCount: number }

// By SQL through `getDb`, because `findJobs` cannot filter by state and would also return completed jobs.
const active = `select id, name as queue, retry_count as "retryCount" from ${schema}.job where state = 'active'`

/**
 * Retries jobs that were active when the previous process of this node ended, without waiting for their heartbeat to expire.
 * Only for queues that no other process works on, or whose jobs two processes may do at the same time.
 */
export async function reclaimAll(boss: PgBoss, queues: readonly string[]): Promise<number> {
  const { rows } = await boss.getDb().executeSql(`${active} and name = any($1::text[])`, [queues])
  return retryNow(boss, rows)
}

/** Retries active jobs without a heartbeat. pg-boss does this too, but only ten seconds after the last heartbeat. */
export async function reclaimWithoutHeartbeat(
  boss: PgBoss,
  queues: readonly string[],
  silentSeconds: number,
): Promise<number> {
  const { rows } = await boss.getDb().executeSql(
    `${active} and name = any($1::text[]) and heartbeat_seconds is not null
       and heartbeat_on < clock_timestamp() - make_interval(secs => $2)`,
    [queues, silentSeconds],
  )
  return retryNow(boss, rows)
}

async function retryNow(boss: PgBoss, attempts: readonly Attempt[]): Promise<number> {
  for (const { queue, ...attempt } of attempts) {
    // With the number of the attempt, so that a next attempt that has started in the meantime goes on.
    await boss.fail(queue, attempt, { message: 'its process was killed' })
    // `fail` delays the next attempt, but the job itself did not fail.
    await boss.update(queue, undefined, { id: attempt.id, startAfter: new Date() })
  }
  return attempts.length
}

export type UnsettledJob = { id: string; queue: string; data: PlatformJob; sourceOutput: object | null }

/** Every job of these queues that has no outcome, started or not. */
export async function unsettledJobs(boss: PgBoss, queues: readonly string[]): Promise<UnsettledJob[]> {
  const { rows } = await boss.getDb().executeSql(
    `select id, name as queue, data, source_output as "sourceOutput" from ${schema}.job
     where name = any($1::text[]) and state < 'completed'
     order by created_on`,
    [queues],
  )
  return rows
}
