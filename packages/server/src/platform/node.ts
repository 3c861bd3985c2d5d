import type { PgBoss } from 'pg-boss'
import type { Logger } from 'pino'
import type { Database } from '../db/database.ts'
import { acquire } from '../embedded/acquire.ts'
import { availableDatabasesOfNode } from '../store/platform/databases.ts'
import { forgetNodes, type Prices } from '../store/platform/nodes.ts'
import type { Transact } from '../store/publishing-transaction.ts'
import type { ArchiveStore } from './archive/archive-store.ts'
import { bringBack, sweep } from './bring-back.ts'
import type { DatabaseDriver } from './driver.ts'
import { issueInvoicesDue } from './invoices.ts'
import { ensureQueues, type JobQueue } from './jobs/queue.ts'
import { anyNode, givenUp, invoicing, nodeQueue } from './jobs/queue-names.ts'
import { reclaimAll } from './jobs/reclaim.ts'
import { createTurns } from './jobs/turns.ts'
import { polling, workOn, workOnShort } from './jobs/worker.ts'
import { createPresence, goneSeconds } from './presence.ts'
import { createBackingUp } from './steps/backing-up.ts'
import { createProvisioning } from './steps/provisioning.ts'
import { createRemoval } from './steps/removal.ts'
import { createRestoring } from './steps/restoring.ts'
import { type BackupSchedule, keepBackupSchedule } from './steps/scheduled-backups.ts'
import { watchOthers } from './takeover.ts'
import { untilReachable } from './until-reachable.ts'

const placersMax = 2
const workersMax = 4
/** Beside those, which may all be at backups and restores. */
const shortWorkersMax = 2
/** Every night rather than once a month: a node that was down on the first makes up for it on the second. */
const invoicingCron = '20 0 * * *'

export type PlatformNode = {
  /** Every database of this machine is back, and jobs are worked on. Rejects where that will never be. */
  ready: Promise<void>
  close(): Promise<void>
}

export type PlatformNodeOptions = {
  db: Database
  transact: Transact
  dataDir: string
  /** This machine's name, and the name under which one process at a time acts for it. */
  node: string
  holdName: string
  driver: DatabaseDriver
  archives: ArchiveStore
  queue: JobQueue
  databasesPerNodeMax: number
  /** How long work that only one node can do waits for that node to come back. */
  patienceSeconds: number
  backupSchedule: BackupSchedule | null
  prices: Prices
  log: Logger
}

/** Brings back every database of this machine, and works on jobs until it is closed. Waits where PostgreSQL is away. */
export async function startPlatformNode(options: PlatformNodeOptions): Promise<PlatformNode> {
  const { db, transact, node, queue, log, driver, archives, databasesPerNodeMax, prices } = options
  const note = (text: string) => log.info({ node }, text)
  const held = await acquire({ dataDir: options.dataDir, name: options.holdName, purpose: 'serve', note })
  if (held.kind !== 'held') throw new Error('a server never shares a data directory')
  const turns = createTurns()
  const closing = new AbortController()
  const { signal } = closing
  const common = { db, driver, archives, node, databasesPerNodeMax, queue, turns, log, signal }
  const handlers = {
    ...createProvisioning(common),
    ...createBackingUp(common),
    ...createRestoring(common),
    ...createRemoval(common),
  }
  const onReturn = () => void sweep(common).catch((err) => log.warn({ err }, 'node.not_swept'))
  const presence = createPresence({ db, node, databasesMax: databasesPerNodeMax, prices, signal, onReturn, log })
  const work = { transact, queue, handlers, isStopping: () => signal.aborted, log }
  const patiently = <T>(say: () => Promise<T>) =>
    untilReachable(say, { signal, onRetry: (err) => log.warn({ err }, 'node.waits_for_postgresql') })
  let recovering: Promise<void> | undefined
  let watching: Promise<void> | undefined
  let scheduling: Promise<void> | undefined

  async function begin(): Promise<void> {
    void driver.prepare().catch((err) => log.debug({ err }, 'platform.not_prepared'))
    const boss = await patiently(queue.boss)
    const mine = nodeQueue(node)
    await patiently(() => ensureQueues(boss, mine))
    // After its queue, into which whoever places a database here puts the job.
    await patiently(presence.begin)
    // Every node asks after all the others each second. Machines come and go with restarts, so this is often enough.
    const gone = await patiently(() => forgetNodes(db, goneSeconds))
    if (gone.length > 0) log.info({ gone }, 'nodes.forgotten')
    // Placing twice at the same time is harmless: the row is locked, and placed once.
    const count = await patiently(() => reclaimAll(boss, [mine, givenUp(mine), anyNode, givenUp(anyNode)]))
    if (count > 0) log.info({ count }, 'jobs.reclaimed')
    const there = await patiently(() => availableDatabasesOfNode(db, node))
    recovering = bringBack(common, there)
    // Before any work: where the files cannot be reached at all, that is said once, and no job fails for it.
    await patiently(() => sweep(common))
    await workOn(boss, mine, workersMax, work)
    await workOnShort(boss, mine, shortWorkersMax, work)
    await workOn(boss, anyNode, placersMax, work)
    await patiently(() => boss.schedule(invoicing, invoicingCron, null, { tz: 'UTC' }))
    await workOnInvoices(boss, options)
    const { patienceSeconds, backupSchedule } = options
    if (backupSchedule !== null) scheduling = keepBackupSchedule(common, backupSchedule)
    watching = watchOthers({ ...work, db, boss, node, presence, patienceSeconds, signal })
    await recovering
    log.info({ node }, 'platform.ready')
  }

  const ready = begin().catch((error: unknown) => {
    if (!signal.aborted) throw error
  })
  ready.catch(() => {})
  return {
    ready,
    async close() {
      closing.abort()
      turns.end(new Error('Keyhook is stopping'))
      await ready.catch(() => {})
      await recovering
      await presence.withdraw().catch((err) => log.warn({ err }, 'node.not_withdrawn'))
      await watching
      await scheduling
      await queue.close()
      await driver.close()
      await held.hold.release()
    },
  }
}

async function workOnInvoices(boss: PgBoss, options: PlatformNodeOptions): Promise<void> {
  await boss.work(invoicing, polling, async () => {
    const invoices = await issueInvoicesDue(options)
    if (invoices.length > 0) options.log.info({ invoices }, 'invoices.issued')
  })
}
