import { type JobWithMetadata, PgBoss, type Db as PgBossDb, type Queue } from 'pg-boss'
import type { Logger } from 'pino'
import type { Destination, PlatformJob } from '../../domain/platform-job.ts'
import type { ConnectionTarget, Transaction } from '../../store/database.ts'
import { always, anyNode, givenUp, invoicing, nodeQueue, policyOf, schema } from './queue-names.ts'

/** pg-boss looks for jobs whose node went silent this often; what it finds is tried again at once. */
const superviseSeconds = 5
const connectionsMax = 4

export type JobQueue = {
  /** In the caller's transaction: the job exists if, and only if, the row that it is about does. */
  enqueue(tx: Transaction, job: PlatformJob, to: Destination): Promise<void>
  /** In the caller's transaction again: the outcome and the end of the job are one. */
  complete(tx: Transaction, queue: string, job: { id: string; retryCount: number }): Promise<void>
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
  const boss = () => {
    starting ??= start(deps).catch((error: unknown) => {
      starting = undefined
      throw error
    })
    return starting
  }

  return {
    boss,
    async enqueue(tx, job, { node }) {
      const queue = node === null ? anyNode : nodeQueue(node)
      const sent = await (await boss()).send(queue, job, { ...policyOf(job.kind), db: within(tx) })
      if (sent === null) throw new Error(`pg-boss did not take ${job.kind}`)
    },
    async complete(tx, queue, job) {
      await (await boss()).complete(queue, { id: job.id, retryCount: job.retryCount }, null, { db: within(tx) })
    },
    async close() {
      const started = await starting?.catch(() => undefined)
      // Graceful: whoever is at work was told to stop before, and gets a moment to say so.
      await started?.stop({ graceful: true, timeout: 20_000 })
    },
  }
}

async function start({ target, supervise, log }: Parameters<typeof createJobQueue>[0]): Promise<PgBoss> {
  const boss = new PgBoss({
    ...('url' in target ? { connectionString: target.url } : target),
    schema,
    application_name: 'keyhook jobs',
    max: connectionsMax,
    supervise,
    schedule: supervise,
    superviseIntervalSeconds: superviseSeconds,
    monitorIntervalSeconds: superviseSeconds,
    useListenNotify: true,
  })
  boss.on('error', (err) => log.warn({ err }, 'jobs.error'))
  boss.on('warning', (warning) => log.debug({ warning }, 'jobs.warning'))
  await boss.start()
  await ensureQueues(boss, anyNode)
  await ensureQueue(boss, invoicing, {})
  return boss
}

/** A queue, and beside it the one that its jobs go to after their last attempt. */
export async function ensureQueues(boss: PgBoss, name: string): Promise<void> {
  await ensureQueue(boss, givenUp(name), always)
  await ensureQueue(boss, name, { deadLetter: givenUp(name) })
}

async function ensureQueue(boss: PgBoss, name: string, options: Omit<Queue, 'name'>): Promise<void> {
  if ((await boss.getQueue(name)) === null) await boss.createQueue(name, { ...options, notify: true })
}

/**
 * Jobs that a predecessor of this process had in hand when it was killed: there is no need to wait for their heartbeat
 * to go stale. Only for queues that no other process works on, or whose jobs may well be done by two at a time.
 */
export async function reclaim(boss: PgBoss, queue: string): Promise<number> {
  const { rows } = await boss
    .getDb()
    .executeSql(`select id from ${schema}.job where name = $1 and state = 'active'`, [queue])
  const ids = rows.map((row: { id: string }) => row.id)
  if (ids.length === 0) return 0
  await boss.fail(queue, ids, { message: 'its process was killed' })
  // Failing puts them off, as after a failure of their own; but nothing was wrong with them.
  for (const id of ids) await boss.update(queue, undefined, { id, startAfter: new Date() })
  return ids.length
}

/** pg-boss's statements, on the caller's own connection. */
const within = (tx: Transaction): PgBossDb => ({
  executeSql: async (text, values) => ({ rows: [...(await tx.unsafe(text, (values ?? []) as never[]))] }),
})

export type TakenJob = JobWithMetadata<PlatformJob>
