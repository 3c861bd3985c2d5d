import { setTimeout as sleep } from 'node:timers/promises'
import type { PgBoss } from 'pg-boss'
import type { Logger } from 'pino'
import { failBackupsOf } from '../backups/rules.ts'
import { createBackingUp, createRestoring } from '../backups/steps.ts'
import { type BackupSchedule, removeLeftoverFiles, watchBackupSchedule, watchLeftoverFiles } from '../backups/upkeep.ts'
import { runWalArchiving } from '../backups/wal-archiving.ts'
import { issueInvoicesDue } from '../billing/rules.ts'
import type { CertificateSource } from '../databases/certificates.ts'
import { createHeartbeat, forgottenAfterSeconds, watchDeadNodes } from '../databases/dead-nodes.ts'
import type { DatabaseDriver, LocalInstances } from '../databases/drivers/driver.ts'
import { resumeDatabases, warnOfNeighbours, watchActivity } from '../databases/local-databases.ts'
import { createMoving } from '../databases/moving.ts'
import { forgetNodes, type Prices } from '../databases/node-sql.ts'
import { availableDatabasesOfNode } from '../databases/sql.ts'
import { createProvisioning, createRemoval } from '../databases/steps.ts'
import { createStorageMonitor, type StorageSettings, withoutStorageMonitor } from '../databases/storage/monitor.ts'
import type { StorageReport } from '../databases/storage-rules.ts'
import { type Database, isUnavailable, type Transact } from '../db/database.ts'
import { watchErasedDatabases } from '../deletion/erased-databases.ts'
import { watchDeletions } from '../deletion/erasure.ts'
import { anyNode, deadLetter, ensureQueues, invoicing, type JobQueue, nodeQueue } from '../jobs/queue.ts'
import { type JobObserver, polling, reclaimAll, workOn, workOnShort } from '../jobs/worker.ts'
import { retryUntilAccepted } from '../lib/clock.ts'
import type { DatabaseId } from '../lib/ids.ts'
import { createKeyedQueue } from '../lib/keyed-queue.ts'
import { acquireLock } from '../postgres/data-directory-lock.ts'

const placersMax = 2
const workersMax = 4

/** In addition, because the others may all be busy with backups and restores. */
const shortWorkersMax = 2

/** Every night and not once a month: a node that was down on the first catches up on the second. */
const invoicingCron = '20 0 * * *'

export type PlatformNode = {
  /** Resolves when every database of this node was started and jobs are worked on. Rejects on a permanent error. */
  ready: Promise<void>
  /** The disk and the storage of the databases, as they were measured last. */
  storage(): StorageReport
  close(): Promise<void>
}

export type PlatformNodeOptions = {
  db: Database
  transact: Transact
  dataDir: string
  /** The id of this node, and the name of the lock that allows one process at a time to act for it. */
  node: string
  lockName: string
  driver: DatabaseDriver
  /** Other processes act for the same node: its databases are on no machine of ours. */
  isShared: boolean
  /** What this machine does for databases on its own disk; null if they are elsewhere. */
  local: LocalDatabases | null
  /** How often WAL is archived; null: not at all. */
  walEverySeconds: number | null
  /** After so much stored WAL a new base is taken. */
  walBytesPerBaseMax: number
  /** What the backups and WAL of one organization may take. */
  archivesPerOrgMax: number
  /** Whether new archives are on a disk of this node. */
  archivesAreLocal: boolean
  /** The same on all nodes that have the same store; null: its databases cannot move. */
  store: string | null
  /** The name under which clients find this node; null: databases have names of their own. */
  host: string | null
  onWalArchived(id: DatabaseId, until: Date | null): void
  queue: JobQueue
  databasesPerNodeMax: number
  /** How long a job that only one node can do waits for that node. */
  patienceSeconds: number
  backupSchedule: BackupSchedule
  prices: Prices
  observeJobs?: JobObserver
  log: Logger
}

type LocalDatabases = {
  instances: LocalInstances
  storage: StorageSettings
  /** Null: databases have no TLS. */
  certificates: CertificateSource | null
}

/** Starts every database of this node, and works on jobs until it is closed. Waits while PostgreSQL is unreachable. */
export async function startPlatformNode(options: PlatformNodeOptions): Promise<PlatformNode> {
  const { db, transact, node, isShared, queue, log, driver, local, databasesPerNodeMax, prices } = options
  const note = (text: string) => log.info({ node }, text)
  const acquired = await acquireLock({ dataDir: options.dataDir, name: options.lockName, purpose: 'serve', note })
  if (acquired.kind !== 'locked') throw new Error('a server never shares a data directory')
  // One job at a time for each database. Not pg-boss's groups: a removal has to abort the job that is running.
  const databaseWork = createKeyedQueue()
  const closing = new AbortController()
  const { signal } = closing
  const { dataDir } = options
  const storage =
    local === null
      ? withoutStorageMonitor()
      : createStorageMonitor({ db, node, databaseWork, dataDir, settings: local.storage, ...local, log })
  const common = {
    db,
    driver,
    node,
    databasesPerNodeMax,
    storageLimitBytes: local?.storage.limitBytes ?? Number.POSITIVE_INFINITY,
    archivesPerOrgMax: options.archivesPerOrgMax,
    queue,
    databaseWork,
    storage,
    archiving: new Set<DatabaseId>(),
    log,
    signal,
  }
  const handlers = {
    ...createProvisioning(common),
    ...createBackingUp(common),
    ...createRestoring(common),
    ...createRemoval({ ...common, failBackupsOf }),
    ...createMoving(common),
  }
  const onReturn = () =>
    void removeLeftoverFiles(common).catch((err) => log.warn({ err }, 'node.leftover_files_not_removed'))
  // A node whose disk is nearly full takes no new databases.
  const databasesMax = () => (storage.hasRoom() ? databasesPerNodeMax : 0)
  const { host, store } = options
  const announcement = () => ({
    databasesMax: databasesMax(),
    prices,
    host,
    store,
    up: local?.instances.up() ?? null,
  })
  const onForgotten = () => {
    log.fatal({ node }, 'node.forgotten')
    closing.abort()
    // Nobody may write to a copy that was given up.
    void driver.close().catch((err) => log.error({ err }, 'node.databases_not_stopped'))
  }
  const heartbeat = createHeartbeat({ db, node, announcement, signal, onReturn, onForgotten, log })
  const work = { transact, queue, handlers, isStopping: () => signal.aborted, observe: options.observeJobs, log }
  const whenReachable = <T>(statement: () => Promise<T>) =>
    retryUntilAccepted(
      {
        signal,
        isTransient: (error) => isUnavailable(error) || isSchemaRace(error),
        onRetry: (err) => log.warn({ err }, 'node.waits_for_postgresql'),
        pause: (ms) => sleep(ms, undefined, { signal }),
      },
      statement,
    )
  let resuming: Promise<void> | undefined
  /** Ends when the node is closed. */
  const background: Promise<void>[] = []

  async function start(): Promise<void> {
    void local?.instances.prepare().catch((err) => log.debug({ err }, 'platform.not_prepared'))
    const boss = await whenReachable(queue.boss)
    const ownQueue = nodeQueue(node)
    await whenReachable(() => ensureQueues(boss, ownQueue))
    await whenReachable(storage.start)
    // After the queue, because jobs are placed into it as soon as there is a heartbeat.
    await whenReachable(heartbeat.start)
    // Every node reads all others each second. Machines come and go with restarts, so once per start is enough.
    const forgotten = await whenReachable(() => forgetNodes(db, forgottenAfterSeconds))
    if (forgotten.length > 0) log.info({ nodes: forgotten }, 'nodes.forgotten')
    const own = [ownQueue, deadLetter(ownQueue)]
    // Placing a database twice is harmless: its row is locked, and it is placed once.
    const reclaimed = [...(isShared ? [] : own), anyNode, deadLetter(anyNode)]
    const count = await whenReachable(() => reclaimAll(boss, reclaimed))
    if (count > 0) log.info({ count }, 'jobs.reclaimed')
    if (local !== null && local.certificates !== null) {
      // A certificate that cannot be used is reported now, and not by every database.
      const { certificates } = local
      await whenReachable(() => certificates())
      local.instances.useCertificates(certificates)
    }
    const available = await whenReachable(() => availableDatabasesOfNode(db, node))
    resuming = resumeDatabases(common, available)
    // Before any job: files that cannot be reached are reported once, and no job fails because of them.
    await whenReachable(() => removeLeftoverFiles(common))
    await workOn(boss, ownQueue, workersMax, work)
    await workOnShort(boss, ownQueue, shortWorkersMax, work)
    await workOn(boss, anyNode, placersMax, work)
    await whenReachable(() => boss.schedule(invoicing, invoicingCron, null, { tz: 'UTC' }))
    await workOnInvoices(boss, options)
    const { patienceSeconds, backupSchedule } = options
    background.push(watchBackupSchedule(common, backupSchedule), watchDeletions(common), watchErasedDatabases(common))
    if (local !== null)
      background.push(watchActivity({ ...common, ...local }), warnOfNeighbours({ ...common, ...local }))
    const { walEverySeconds: everySeconds, onWalArchived: onArchived } = options
    const room = options.archivesAreLocal ? storage.room : () => signal
    const bytesPerBaseMax = options.walBytesPerBaseMax
    if (everySeconds !== null)
      background.push(runWalArchiving({ ...common, everySeconds, bytesPerBaseMax, room, onArchived }))
    const shared = isShared ? own : []
    background.push(watchDeadNodes({ ...work, db, boss, node, shared, heartbeat, patienceSeconds, signal }))
    if (isShared) background.push(watchLeftoverFiles(common))
    await resuming
    await whenReachable(heartbeat.now)
    log.info({ node }, 'platform.ready')
  }

  const ready = start().catch((error: unknown) => {
    if (!signal.aborted) throw error
  })
  ready.catch(() => {})
  return {
    ready,
    storage: storage.report,
    async close() {
      closing.abort()
      databaseWork.close(new Error('Keyhook is stopping'))
      await ready.catch(() => {})
      await resuming
      await heartbeat.stop().catch((err) => log.warn({ err }, 'node.not_withdrawn'))
      await Promise.all(background)
      await queue.close()
      await storage.close()
      await driver.close()
      await acquired.lock.release()
    },
  }
}

/** Of two nodes that create the schema of jobs at the same time, one gets this error, and can use the other's schema. */
const isSchemaRace = (error: unknown): boolean =>
  (error as { constraint?: string } | null)?.constraint === 'pg_namespace_nspname_index'

async function workOnInvoices(boss: PgBoss, options: PlatformNodeOptions): Promise<void> {
  await boss.work(invoicing, polling, async () => {
    const invoices = await issueInvoicesDue(options)
    if (invoices.length > 0) options.log.info({ invoices }, 'invoices.issued')
  })
}
