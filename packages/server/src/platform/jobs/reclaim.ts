import type { PgBoss } from 'pg-boss'
import type { PlatformJob } from '../../domain/platform-job.ts'
import { schema } from './queue-names.ts'

type Attempt = { id: string; retryCount: number }

/**
 * Jobs that a predecessor of this process had in hand when it was killed: there is no need to wait until their signs of
 * life are missed. Only for queues that no other process works on, or whose jobs may well be done by two at a time.
 */
export async function reclaimAll(boss: PgBoss, queue: string): Promise<number> {
  const { rows } = await boss
    .getDb()
    .executeSql(`select id, retry_count as "retryCount" from ${schema}.job where name = $1 and state = 'active'`, [
      queue,
    ])
  return tryAgainNow(boss, queue, rows)
}

/**
 * Jobs that nobody has given a sign of life for. pg-boss does this too, but no sooner than ten seconds after the last
 * one, and in rounds of its own.
 */
export async function reclaimSilent(boss: PgBoss, queue: string, silentSeconds: number): Promise<number> {
  const { rows } = await boss.getDb().executeSql(
    `select id, retry_count as "retryCount" from ${schema}.job
     where name = $1 and state = 'active' and heartbeat_seconds is not null
       and heartbeat_on < clock_timestamp() - make_interval(secs => $2)`,
    [queue, silentSeconds],
  )
  return tryAgainNow(boss, queue, rows)
}

async function tryAgainNow(boss: PgBoss, queue: string, attempts: Attempt[]): Promise<number> {
  if (attempts.length === 0) return 0
  // With the attempt's number: whoever has begun the next one meanwhile goes on undisturbed.
  await boss.fail(queue, attempts, { message: 'its process was killed' })
  // Failing puts them off, as after a failure of their own; but nothing was wrong with them.
  for (const { id } of attempts) await boss.update(queue, undefined, { id, startAfter: new Date() })
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
