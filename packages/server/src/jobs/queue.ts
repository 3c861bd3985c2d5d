import { setTimeout as sleep } from 'node:timers/promises'
import { type JobWithMetadata, PgBoss, type Db as PgBossDb, type Queue } from 'pg-boss'
import type { Logger } from 'pino'
import { type ConnectionTarget, clientConfig, type Transaction } from '../db/database.ts'
import type { BackupId, DatabaseId, OrgId, RestoreId } from '../lib/ids.ts'
import { activeTraceparent } from '../lib/tracing.ts'

/** How often pg-boss looks for jobs without a heartbeat, which it retries at once. */
const superviseSeconds = 5
const connectionsMax = 4
const stopMsMax = 20_000

export type JobQueue = ReturnType<typeof createJobQueue>

type Deps = { target: ConnectionTarget; supervise: boolean; log: Logger }

/** pg-boss with a small pool. It starts on first use, so a process that never needs it opens no connection. */
export function createJobQueue(deps: Deps) {
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
    /** For workers. */
    boss,
    /** In the caller's transaction: the job exists if and only if the row that it is about does. */
    async enqueue(tx: Transaction, job: PlatformJob): Promise<void> {
      const queue = job.kind === 'database.place' ? anyNode : nodeQueue(job.node)
      // The first call waits for pg-boss to start, and the open transaction waits with it.
      if (!isReady) await tx`set local idle_in_transaction_session_timeout = '60s'`
      const sent = await (await boss()).send(queue, withTrace(job), { ...policyOf(job), db: inTransaction(tx) })
      if (sent === null) throw new Error(`pg-boss did not accept ${job.kind}`)
    },
    /** In the caller's transaction, together with the outcome of the job. */
    async complete(tx: Transaction, queue: string, job: { id: string; retryCount: number }): Promise<void> {
      await (await boss()).complete(queue, { id: job.id, retryCount: job.retryCount }, null, { db: inTransaction(tx) })
    },
    /** The same for a job of a dead node, started or not. */
    async cancel(tx: Transaction, queue: string, id: string): Promise<void> {
      await (await boss()).cancel(queue, id, { db: inTransaction(tx) })
    },
    async close(): Promise<void> {
      const started = await starting?.catch(() => undefined)
      if (started === undefined) return
      await stopWorkers(started)
      await started.stop({ graceful: false })
    },
  }
}

async function start({ target, supervise, log }: Deps): Promise<PgBoss> {
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

/** Queue by queue, because pg-boss's own graceful stop checks only twice a second whether the jobs have ended. */
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

export const schema = 'keyhook_jobs'
/** Jobs that any node may do. */
export const anyNode = 'any-node'
export const invoicing = 'invoicing'
/** Jobs on files, for the one node that has them. */
export const nodeQueue = (node: string): string => `node-${node}`
/** Where pg-boss moves a job after its last attempt. Its failure is settled from there. */
export const deadLetter = (queue: string): string => `${queue}-dead-letter`

const seconds = { hour: 3_600, day: 86_400 }

/** The minimum of pg-boss, and only the last resort: the nodes themselves detect a dead node after five seconds. */
const heartbeatSeconds = 10

/** How often a job may fail. Attempts that ended with their process do not count, or a few restarts would fail the job. */
export const failuresMax = 3
const attempts = { retryLimit: 20, retryDelay: 1, retryBackoff: true, retryDelayMax: 5 }
/** For removals, and what a move has begun: retried until it succeeds, at least once a minute. */
const always = { retryLimit: 1_000_000, retryDelay: 1, retryBackoff: true, retryDelayMax: 60 }

/** How long a finished job is kept. */
export const finishedSeconds = seconds.hour

/** About half a minute: another database may be deleted, or a node that restarts may come back. */
const searching = { retryLimit: 8, retryDelay: 1, retryBackoff: true, retryDelayMax: 5 }

/** Backups and restores take as long as a database is large, so creating and removing databases goes first. A person waits for a restore. */
export const priorities = { backup: 0, restore: 1, short: 2 } as const

type Policy = { priority: keyof typeof priorities; retries: typeof attempts }

const policies: Readonly<Record<PlatformJob['kind'], Policy>> = {
  'database.place': { priority: 'short', retries: searching },
  'database.provision': { priority: 'short', retries: attempts },
  'database.remove': { priority: 'short', retries: always },
  'database.discard': { priority: 'short', retries: always },
  'database.leave': { priority: 'restore', retries: attempts },
  'database.arrive': { priority: 'restore', retries: always },
  'database.stay': { priority: 'short', retries: always },
  'backup.take': { priority: 'backup', retries: attempts },
  'backup.remove': { priority: 'short', retries: always },
  'restore.run': { priority: 'restore', retries: attempts },
}

export const jobKinds = Object.keys(policies)

export const hasFailureLimit = (kind: PlatformJob['kind']): boolean => policies[kind].retries === attempts

function policyOf({ kind, orgId }: PlatformJob) {
  const { priority, retries } = policies[kind]
  return {
    ...retries,
    heartbeatSeconds,
    expireInSeconds: seconds.day - 1,
    // pg-boss deletes a job that has waited for so long. Some are promised, and a node may be down for months.
    retentionSeconds: (retries === always ? 3_650 : 30) * seconds.day,
    deleteAfterSeconds: finishedSeconds,
    priority: priorities[priority],
    // Limits how many long jobs of one organization a node runs at a time. Short jobs are not limited.
    ...(priority !== 'short' && { group: { id: orgId } }),
  }
}

/** Ids only, because the row may have changed when the job runs. `node` holds the files and runs the job; `database.place` runs anywhere. */
export type PlatformJob =
  | { kind: 'database.place'; orgId: OrgId; databaseId: DatabaseId }
  /** The node is compared with the row's: a node that was declared dead must not touch what another one creates now. */
  | { kind: 'database.provision'; orgId: OrgId; databaseId: DatabaseId; node: string }
  | { kind: 'database.remove'; orgId: OrgId; databaseId: DatabaseId; node: string }
  /** Files of a database that was moved to another node since. */
  | { kind: 'database.discard'; orgId: OrgId; databaseId: DatabaseId; node: string }
  /** Closes it to clients, stores its WAL to the end and hands it to another node. */
  | { kind: 'database.leave'; orgId: OrgId; databaseId: DatabaseId; node: string }
  /** Restores it from the store on its new node. */
  | { kind: 'database.arrive'; orgId: OrgId; databaseId: DatabaseId; node: string }
  /** It could not arrive anywhere, and goes on where it was. */
  | { kind: 'database.stay'; orgId: OrgId; databaseId: DatabaseId; node: string }
  | { kind: 'backup.take'; orgId: OrgId; backupId: BackupId; node: string }
  | { kind: 'backup.remove'; orgId: OrgId; backupId: BackupId; node: string }
  | { kind: 'restore.run'; orgId: OrgId; restoreId: RestoreId; node: string }
