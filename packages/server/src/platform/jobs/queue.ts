import { setTimeout as sleep } from 'node:timers/promises'
import { type JobWithMetadata, PgBoss, type Db as PgBossDb, type Queue } from 'pg-boss'
import type { Logger } from 'pino'
import { type ConnectionTarget, clientConfig, type Transaction } from '../../db/database.ts'
import type { PlatformJob } from '../../domain/platform-job.ts'
import { always, anyNode, givenUp, heartbeatSeconds, invoicing, nodeQueue, policyOf, schema } from './queue-names.ts'

/** pg-boss looks for jobs whose node went silent this often; what it finds is tried again at once. */
const superviseSeconds = 5
const connectionsMax = 4
const stopMsMax = 20_000

export type JobQueue = {
  /** In the caller's transaction: the job exists if, and only if, the row that it is about does. */
  enqueue(tx: Transaction, job: PlatformJob): Promise<void>
  /** In the caller's transaction again: the outcome and the end of the job are one. */
  complete(tx: Transaction, queue: string, job: { id: string; retryCount: number }): Promise<void>
  /** The same for a job that its own node will not do any more, whether that has begun it or not. */
  cancel(tx: Transaction, queue: string, id: string): Promise<void>
  /** For whoever works on jobs. */
  boss(): Promise<PgBoss>
  close(): Promise<void>
}

/**
 * pg-boss in a schema of its own, with a small pool of its own. It is started by the first one who needs it, so a
 * process that is never asked for a database does not even open a connection.
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
      // The first one waits for connections to be made and the schema to be looked at, and the transaction with it.
      if (!isReady) await tx`set local idle_in_transaction_session_timeout = '60s'`
      const sent = await (await boss()).send(queue, job, { ...policyOf(job), db: within(tx) })
      if (sent === null) throw new Error(`pg-boss did not take ${job.kind}`)
    },
    async complete(tx, queue, job) {
      await (await boss()).complete(queue, { id: job.id, retryCount: job.retryCount }, null, { db: within(tx) })
    },
    async cancel(tx, queue, id) {
      await (await boss()).cancel(queue, id, { db: within(tx) })
    },
    async close() {
      const started = await starting?.catch(() => undefined)
      if (started === undefined) return
      await endWork(started)
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
    // Half started it has timers and connections, and whoever tries again makes another one.
    await boss.stop({ graceful: false }).catch(() => {})
    throw error
  }
  return boss
}

/**
 * Whoever is at work was told to stop before, and gets a moment to say so. Queue by queue, because pg-boss's own graceful
 * stop looks only twice a second whether they have.
 */
async function endWork(boss: PgBoss): Promise<void> {
  const queues = new Set(boss.getWipData().map((worker) => worker.name))
  const enough = new AbortController()
  const ended = Promise.all([...queues].map((queue) => boss.offWork(queue, { wait: true })))
  // One that fails after we have stopped waiting is no news.
  ended.catch(() => {})
  await Promise.race([ended, sleep(stopMsMax, undefined, { signal: enough.signal }).catch(() => {})])
  enough.abort()
}

/** A queue, and beside it the one that its jobs go to after their last attempt. */
export async function ensureQueues(boss: PgBoss, name: string): Promise<void> {
  await ensureQueue(boss, givenUp(name), { ...always, heartbeatSeconds })
  await ensureQueue(boss, name, { deadLetter: givenUp(name) })
}

async function ensureQueue(boss: PgBoss, name: string, options: Omit<Queue, 'name'>): Promise<void> {
  if ((await boss.getQueue(name)) === null) await boss.createQueue(name, { ...options, notify: true })
}

/** pg-boss's statements, on the caller's own connection. */
const within = (tx: Transaction): PgBossDb => ({
  executeSql: async (text, values) => ({ rows: [...(await tx.unsafe(text, (values ?? []) as never[]))] }),
})

export type TakenJob = JobWithMetadata<PlatformJob>
