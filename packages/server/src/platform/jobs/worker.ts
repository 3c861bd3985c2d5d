import type { PgBoss } from 'pg-boss'
import type { Logger } from 'pino'
import type { PlatformJob } from '../../domain/platform-job.ts'
import { inSpan } from '../../kernel/tracing.ts'
import type { PublishingTransaction, Transact } from '../../store/publishing-transaction.ts'
import { StepFailure } from '../driver.ts'
import type { JobQueue, TakenJob } from './queue.ts'
import { deadLetter, failuresMax, hasFailureLimit, priorities } from './queue-names.ts'

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
  const options = {
    ...polling,
    includeMetadata: true,
    localConcurrency: concurrency,
    localGroupConcurrency: Math.max(1, concurrency - 1),
  } as const
  await boss.work(name, options, async ([job]: TakenJob[]) => attempt({ queue: name, job: job!, deps }))
  await boss.work(deadLetter(name), { ...polling, includeMetadata: true }, async ([job]: TakenJob[]) =>
    settleFailure(deadLetter(name), job!, reasonFrom(job!.sourceOutput), deps),
  )
}

/** More workers, for short jobs only: the removal that aborts a backup cannot wait for that backup's worker. */
export async function workOnShort(boss: PgBoss, name: string, concurrency: number, deps: WorkDeps): Promise<void> {
  const options = {
    ...polling,
    includeMetadata: true,
    localConcurrency: concurrency,
    minPriority: priorities.short,
  } as const
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
