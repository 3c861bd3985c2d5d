import { setTimeout as sleep } from 'node:timers/promises'
import { type JobWithMetadata, PgBoss, type Db as PgBossDb, type Queue } from 'pg-boss'
import type { Logger } from 'pino'
import { type ConnectionTarget, clientConfig, type Transaction } from '../../db/database.ts'
import type { PlatformJob } from '../../domain/platform-job.ts'
import { activeTraceparent } from '../../kernel/tracing.ts'
import { always, anyNode, deadLetter, heartbeatSeconds, invoicing, nodeQueue, policyOf, schema } from './queue-names.ts'

/** How often pg-boss looks for jobs without a heartbeat, which it retries at once. */
const superviseSeconds = 5
const connectionsMax = 4
const stopMsMax = 20_000

export type JobQueue = {
  /** In the caller's transaction: the job exists if and only if the row that it is about does. */
  enqueue(tx: Transaction, job: PlatformJob): Promise<void>
  /** In the caller's transaction, together with the outcome of the job. */
  complete(tx: Transaction, queue: string, job: { id: string; retryCount: number }): Promise<void>
  /** The same for a job of a dead node, started or not. */
  cancel(tx: Transaction, queue: string, id: string): Promise<void>
  /** For workers. */
  boss(): Promise<PgBoss>
  close(): Promise<void>
}

/**
 * pg-boss with its own schema and a small pool. It starts on first use, so a process that never needs it opens no
 * connection.
 */
export function createJobQueue(deps: { target: ConnectionTarget; supervise: boolean; log: Logger }): JobQueue {
  let starting: Promise<PgBoss> | undefined
  let isReady = false
  const boss = () => {
    starting ??= start(deps).then(
      (started) => {
        isReady = true
        return started
      },
      (error: unknown) => {
        starting = undefined
        throw error
      },
    )
    return starting
  }

  return {
    boss,
    async enqueue(tx, job) {
      const queue = job.kind === 'database.place' ? anyNode : nodeQueue(job.node)
      // The first call waits for pg-boss to start, and the open transaction waits with it.
      if (!isReady) await tx`set local idle_in_transaction_session_timeout = '60s'`
      const sent = await (await boss()).send(queue, withTrace(job), { ...policyOf(job), db: inTransaction(tx) })
      if (sent === null) throw new Error(`pg-boss did not accept ${job.kind}`)
    },
    async complete(tx, queue, job) {
      await (await boss()).complete(queue, { id: job.id, retryCount: job.retryCount }, null, { db: inTransaction(tx) })
    },
    async cancel(tx, queue, id) {
      await (await boss()).cancel(queue, id, { db: inTransaction(tx) })
    },
    async close() {
      const started = await starting?.catch(() => undefined)
      if (started === undefined) return
      await stopWorkers(started)
      await started.stop({ graceful: false })
    },
  }
}

async function start({ target, supervise, log }: Parameters<typeof createJobQueue>[0]): Promise<PgBoss> {
  const boss = new PgBoss({
    ...clientConfig(target, { name: 'keyhook jobs' }),
    schema,
    max: connectionsMax,
    supervise,
    schedule: supervise,
    superviseIntervalSeconds: superviseSeconds,
    monitorIntervalSeconds: superviseSeconds,
    useListenNotify: true,
  })
  boss.on('error', (err) => log.warn({ err }, 'jobs.error'))
  boss.on('warning', (warning) => log.debug({ warning }, 'jobs.warning'))
  try {
    await boss.start()
    await ensureQueues(boss, anyNode)
    await ensureQueue(boss, invoicing, { heartbeatSeconds })
  } catch (error) {
    // It may have timers and connections already, and the next attempt creates another instance.
    await boss.stop({ graceful: false }).catch(() => {})
    throw error
  }
  return boss
}

/**
 * Waits for jobs that were aborted before. Queue by queue, because pg-boss's own graceful stop checks only twice a second
 * whether they have ended.
 */
async function stopWorkers(boss: PgBoss): Promise<void> {
  const queues = new Set(boss.getWipData().map((worker) => worker.name))
  const timeout = new AbortController()
  const ended = Promise.all([...queues].map((queue) => boss.offWork(queue, { wait: true })))
  // A failure after the timeout is ignored.
  ended.catch(() => {})
  await Promise.race([ended, sleep(stopMsMax, undefined, { signal: timeout.signal }).catch(() => {})])
  timeout.abort()
}

/** A queue and its dead letter queue. */
export async function ensureQueues(boss: PgBoss, name: string): Promise<void> {
  await ensureQueue(boss, deadLetter(name), { ...always, heartbeatSeconds })
  await ensureQueue(boss, name, { deadLetter: deadLetter(name) })
}

async function ensureQueue(boss: PgBoss, name: string, options: Omit<Queue, 'name'>): Promise<void> {
  if ((await boss.getQueue(name)) === null) await boss.createQueue(name, { ...options, notify: true })
}

/** Runs pg-boss's statements on the caller's connection. */
const inTransaction = (tx: Transaction): PgBossDb => ({
  executeSql: async (text, values) => ({ rows: [...(await tx.unsafe(text, (values ?? []) as never[]))] }),
})

/** `traceparent`: of what enqueued it, if traces are exported. */
type TracedJob = PlatformJob & { traceparent?: string }

const withTrace = (job: PlatformJob): TracedJob => {
  const traceparent = activeTraceparent()
  return traceparent === null ? job : { ...job, traceparent }
}

export type TakenJob = JobWithMetadata<TracedJob>
