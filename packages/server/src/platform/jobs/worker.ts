import type { PgBoss } from 'pg-boss'
import type { Logger } from 'pino'
import type { PlatformJob } from '../../domain/platform-job.ts'
import type { PublishingTransaction, Transact } from '../../store/publishing-transaction.ts'
import { StepFailure } from '../driver.ts'
import type { JobQueue, TakenJob } from './queue.ts'
import { failuresMax, givenUp, mayFail, priorities } from './queue-names.ts'

/** Writes an outcome and ends the job, both or neither. */
export type Settle = (write: (tx: PublishingTransaction) => Promise<void>) => Promise<void>

type Handler<J extends PlatformJob = PlatformJob> = {
  /** May run any number of times, from any point that an earlier run was cut off at. */
  run(job: J, settle: Settle): Promise<void>
  /** After the last attempt: tidies up and settles the failure. The reason is for the owner to read. */
  giveUp(job: J, reason: string, settle: Settle, tidy: Tidy): Promise<void>
}
/**
 * Removes what was half made, if it can. A disk that refuses must not keep the owner waiting for an answer: what stays
 * is reported, and removed when the node starts next.
 */
type Tidy = (remove: () => Promise<void>) => Promise<void>

export type Handlers = { [K in PlatformJob['kind']]: Handler<Extract<PlatformJob, { kind: K }>> }

/** A sign of life every second: whoever gives none for a few seconds is taken for dead. */
export const polling = { pollingIntervalSeconds: 1, notifyPollingIntervalSeconds: 2, heartbeatRefreshSeconds: 1 }
const unknownReason = 'Something went wrong on our side.'

export type WorkDeps = { transact: Transact; queue: JobQueue; handlers: Handlers; isStopping(): boolean; log: Logger }

/**
 * Works on a queue, and on what was given up in it. One worker is always left to others than the organization that keeps
 * the rest of them at long work.
 */
export async function workOn(boss: PgBoss, name: string, concurrency: number, deps: WorkDeps): Promise<void> {
  const options = {
    ...polling,
    includeMetadata: true,
    localConcurrency: concurrency,
    localGroupConcurrency: Math.max(1, concurrency - 1),
  } as const
  await boss.work(name, options, async ([job]: TakenJob[]) => attempt(name, job!, deps))
  await boss.work(givenUp(name), { ...polling, includeMetadata: true }, async ([job]: TakenJob[]) =>
    settleFailure(givenUp(name), job!, reasonFrom(job!.sourceOutput), deps),
  )
}

/** More workers on a queue, for work that does not take long: the removal that ends a backup cannot wait for its worker. */
export async function workOnShort(boss: PgBoss, name: string, concurrency: number, deps: WorkDeps): Promise<void> {
  const options = {
    ...polling,
    includeMetadata: true,
    localConcurrency: concurrency,
    minPriority: priorities.short,
  } as const
  await boss.work(name, options, async ([job]: TakenJob[]) => attempt(name, job!, deps))
}

async function attempt(queue: string, job: TakenJob, deps: WorkDeps): Promise<void> {
  const began = performance.now()
  const about = { ...job.data, attempt: job.retryCount + 1 }
  try {
    await handlerOf(deps, job.data).run(job.data, settleWith(deps, queue, job))
    deps.log.info({ ...about, durationMs: Math.round(performance.now() - began) }, 'job.done')
  } catch (error) {
    const durationMs = Math.round(performance.now() - began)
    deps.log.warn({ ...about, durationMs, err: error }, 'job.attempt_failed')
    const reason = error instanceof StepFailure ? error.message : unknownReason
    const failures = failuresOf(job) + (deps.isStopping() ? 0 : 1)
    const isLast = failures >= failuresMax && mayFail(job.data.kind)
    if (isLast || (error instanceof StepFailure && error.lasting)) return settleFailure(queue, job, reason, deps)
    // Only this much is stored with the job: what else the error says is for the log.
    throw Object.assign(new Error(reason), { reason, failures })
  }
}

/** As the attempt before has left it; one whose process was killed has left nothing, and begins to count again. */
const failuresOf = ({ output }: TakenJob): number => (output as { failures?: number } | null)?.failures ?? 0

async function settleFailure(queue: string, job: TakenJob, reason: string, deps: WorkDeps): Promise<void> {
  const tidy: Tidy = (remove) => remove().catch((err) => deps.log.error({ ...job.data, err }, 'job.not_tidied'))
  await handlerOf(deps, job.data).giveUp(job.data, reason, settleWith(deps, queue, job), tidy)
  deps.log.warn({ ...job.data, reason }, 'job.given_up')
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

/** A job whose process died has no reason of its own: pg-boss says "heartbeat timeout" where ours would stand. */
export const reasonFrom = (output: object | null): string => {
  const reason = (output as { reason?: unknown } | null)?.reason
  return typeof reason === 'string' ? reason : 'The node that worked on it was stopped too often.'
}
