import { channel } from 'node:diagnostics_channel'
import type { PgBoss, WorkOptions } from 'pg-boss'
import type { Logger } from 'pino'
import { type Database, isMissingTable, type PublishingTransaction, type Transact } from '../db/database.ts'
import { StepFailure } from '../lib/step-failure.ts'
import { inSpan } from '../lib/tracing.ts'
import {
  deadLetter,
  failuresMax,
  hasFailureLimit,
  type JobQueue,
  type PlatformJob,
  priorities,
  schema,
  type TakenJob,
} from './queue.ts'

/** Writes an outcome and completes the job in one transaction. */
export type Settle = (write: (tx: PublishingTransaction) => Promise<void>) => Promise<void>

type Handler<J extends PlatformJob = PlatformJob> = {
  /** May run any number of times, from any point at which an earlier run was interrupted. */
  run(job: J, settle: Settle): Promise<void>
  /** After the last attempt: cleans up and settles the failure. The reason is for the owner to read. */
  fail(job: J, reason: string, settle: Settle, cleanUp: CleanUp): Promise<void>
}

/** Removes incomplete files if possible. An error is only logged: the next start of the node removes what is left. */
type CleanUp = (remove: () => Promise<void>) => Promise<void>

export type Handlers = { [K in PlatformJob['kind']]: Handler<Extract<PlatformJob, { kind: K }>> }

/** A heartbeat every second, because a job without one for five seconds is taken over. */
export const polling = { pollingIntervalSeconds: 1, notifyPollingIntervalSeconds: 2, heartbeatRefreshSeconds: 1 }
const unknownReason = 'Something went wrong on our side.'

/** For metrics. `failed`: after the last attempt. */
export type JobObserver = {
  attempted(kind: PlatformJob['kind'], outcome: 'succeeded' | 'failed', seconds: number): void
  failed(kind: PlatformJob['kind']): void
}

export type WorkDeps = {
  transact: Transact
  queue: JobQueue
  handlers: Handlers
  isStopping(): boolean
  observe?: JobObserver | undefined
  log: Logger
}

/** Works on a queue and on its dead letters. The long jobs of one organization never take all workers. */
export async function workOn(boss: PgBoss, name: string, concurrency: number, deps: WorkDeps): Promise<void> {
  await take(boss, name, deps, {
    localConcurrency: concurrency,
    localGroupConcurrency: Math.max(1, concurrency - 1),
  })
  await boss.work(deadLetter(name), { ...polling, includeMetadata: true }, async ([job]: TakenJob[]) =>
    settleFailure(deadLetter(name), job!, reasonFrom(job!.sourceOutput), deps),
  )
}

/** More workers, for short jobs only: the removal that aborts a backup cannot wait for that backup's worker. */
export const workOnShort = (boss: PgBoss, name: string, concurrency: number, deps: WorkDeps): Promise<void> =>
  take(boss, name, deps, { localConcurrency: concurrency, minPriority: priorities.short })

async function take(boss: PgBoss, name: string, deps: WorkDeps, more: WorkOptions): Promise<void> {
  const options = { ...polling, ...more, includeMetadata: true } as const
  await boss.work(name, options, async ([job]: TakenJob[]) => attempt({ queue: name, job: job!, deps }))
}

/** In the trace of what enqueued it. A scheduled job starts one. */
const attempt = ({ queue, job, deps }: { queue: string; job: TakenJob; deps: WorkDeps }): Promise<void> => {
  const { kind, traceparent: parent } = job.data
  const attributes = { 'keyhook.job.id': job.id, 'keyhook.job.attempt': job.retryCount + 1 }
  return inSpan(`job ${kind}`, { kind: 'consumer', parent, attributes }, () => run(queue, job, deps))
}

async function run(queue: string, job: TakenJob, deps: WorkDeps): Promise<void> {
  const began = performance.now()
  const about = { ...job.data, attempt: job.retryCount + 1 }
  try {
    await handlerOf(deps, job.data).run(job.data, settleWith(deps, queue, job))
    const durationMs = Math.round(performance.now() - began)
    deps.observe?.attempted(job.data.kind, 'succeeded', durationMs / 1_000)
    deps.log.info({ ...about, durationMs }, 'job.done')
  } catch (error) {
    const durationMs = Math.round(performance.now() - began)
    deps.observe?.attempted(job.data.kind, 'failed', durationMs / 1_000)
    deps.log.warn({ ...about, durationMs, err: error }, 'job.attempt_failed')
    const reason = error instanceof StepFailure ? error.message : unknownReason
    const failures = failuresOf(job) + (deps.isStopping() ? 0 : 1)
    const isLast = failures >= failuresMax && hasFailureLimit(job.data.kind)
    if (isLast || (error instanceof StepFailure && error.permanent)) return settleFailure(queue, job, reason, deps)
    // Only this is stored with the job. The rest of the error is in the log.
    throw Object.assign(new Error(reason), { reason, failures })
  }
}

/** Stored by the attempt before. An attempt whose process was killed stores nothing, so the count starts again. */
const failuresOf = ({ output }: TakenJob): number => (output as { failures?: number } | null)?.failures ?? 0

async function settleFailure(queue: string, job: TakenJob, reason: string, deps: WorkDeps): Promise<void> {
  const cleanUp: CleanUp = (remove) =>
    remove().catch((err) => deps.log.error({ ...job.data, err }, 'job.cleanup_failed'))
  await handlerOf(deps, job.data).fail(job.data, reason, settleWith(deps, queue, job), cleanUp)
  deps.observe?.failed(job.data.kind)
  deps.log.warn({ ...job.data, reason }, 'job.failed')
}

const settleWith =
  ({ transact, queue }: WorkDeps, name: string, job: TakenJob): Settle =>
  async (write) => {
    await transact(async (tx) => {
      await write(tx)
      await queue.complete(tx, name, job)
    })
  }

export const handlerOf = ({ handlers }: { handlers: Handlers }, job: PlatformJob): Handler =>
  handlers[job.kind] as Handler

/** A job whose process died has no reason of ours: pg-boss stores "heartbeat timeout" in its place. */
export const reasonFrom = (output: object | null): string => {
  const reason = (output as { reason?: unknown } | null)?.reason
  return typeof reason === 'string' ? reason : 'The node that worked on it was stopped too often.'
}

type JobMetrics = { queue: string; state: string; jobs: number; due_seconds: number }

/** Queues of nodes count as one, so that labels do not grow with them. pg-boss deletes finished jobs after an hour, so the table is small. */
export const readJobMetrics = async (db: Database): Promise<readonly JobMetrics[]> => {
  try {
    return await db<JobMetrics[]>`
      select queue, state, count(*)::int as jobs, max(due_seconds)::float8 as due_seconds from (
        select regexp_replace(name, '^node-[^-]*', 'node') as queue, state::text as state, case
          when state < 'active' then greatest(0, extract(epoch from now() - start_after)) else 0
        end as due_seconds
        from keyhook_jobs.job
        where (state < 'completed' or state = 'failed') and left(name, 8) <> '__pgboss'
        limit 100000
      ) j group by queue, state`
  } catch (error) {
    // The first process that works on jobs creates it.
    if (isMissingTable(error)) return []
    throw error
  }
}

/** Does not wait for heartbeats to expire: only for queues of one process, or whose jobs two processes may do at the same time. */
export const reclaimAll = (boss: PgBoss, queues: readonly string[]): Promise<number> => retryActive(boss, '', [queues])

/** Retries active jobs without a heartbeat. pg-boss does this too, but only ten seconds after the last heartbeat. */
export function reclaimWithoutHeartbeat(boss: PgBoss, queues: readonly string[], silentSeconds: number) {
  const isSilent = 'heartbeat_seconds is not null and heartbeat_on < clock_timestamp() - make_interval(secs => $2)'
  return retryActive(boss, `and ${isSilent}`, [queues, silentSeconds])
}

async function retryActive(boss: PgBoss, condition: string, values: readonly unknown[]): Promise<number> {
  // By SQL through `getDb`, because `findJobs` cannot filter by state and would also return completed jobs.
  const active = `select id, name as queue, retry_count as "retryCount" from ${schema}.job where state = 'active'`
  const { rows } = await boss.getDb().executeSql(`${active} and name = any($1::text[]) ${condition}`, [...values])
  const attempts: { id: string; queue: string; retryCount: number }[] = rows
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

const steps = channel('keyhook.platform.step')

/** Publishes the start of a step for tracing tools, and for the tests that kill the process at every one of them. */
export function traceStep(name: string, id: string): void {
  if (steps.hasSubscribers) steps.publish({ name, id })
}

const writeMs = 500

/** Writes progress at most every half second. A failed write is ignored, because the next one replaces it. */
export function createProgressWriter(write: (bytes: { bytesDone: number; bytesTotal: number }) => Promise<unknown>) {
  let last = 0
  let writing: Promise<unknown> | undefined
  return {
    report(bytes: { bytesDone: number; bytesTotal: number }): void {
      if (writing !== undefined || Date.now() - last < writeMs) return
      last = Date.now()
      writing = write(bytes)
        .catch(() => {})
        .finally(() => {
          writing = undefined
        })
    },
    /** Waits for a write in flight, so that the outcome is written after it. */
    async settle(): Promise<void> {
      await writing
    },
  }
}
