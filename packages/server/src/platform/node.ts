import type { Logger } from 'pino'
import type { Database } from '../store/database.ts'
import { acquire } from '../store/embedded/acquire.ts'
import { announceNode, withdrawNode } from '../store/nodes.ts'
import type { ArchiveStore } from './archive/archive-store.ts'
import { createBackingUp } from './backing-up.ts'
import type { DatabaseDriver } from './driver.ts'
import { issueLastMonth, type Prices } from './invoices.ts'
import { ensureQueues, type JobQueue, reclaim } from './jobs/queue.ts'
import { anyNode, givenUp, invoicing, nodeQueue } from './jobs/queue-names.ts'
import { createTurns } from './jobs/turns.ts'
import { workOn } from './jobs/worker.ts'
import { createProvisioning } from './provisioning.ts'
import { recover } from './recovery.ts'
import { createRemoval } from './removal.ts'
import { createRestoring } from './restoring.ts'
import { type BackupSchedule, runBackupSchedule } from './scheduled-backups.ts'

const placersMax = 2
const workersMax = 4
const schedulePassMs = 60_000
const announceMs = 5_000
/** Once the start is over: whoever only wants keys and webhooks should not notice. */
const prepareAfterMs = 3_000
/** Every night rather than once a month: a node that was down on the first makes up for it on the second. */
const invoicingCron = '20 0 * * *'

export type PlatformNode = { close(): Promise<void> }

export type PlatformNodeOptions = {
  db: Database
  dataDir: string
  /** This machine's name, and the name under which one process at a time acts for it. */
  node: string
  holdName: string
  driver: DatabaseDriver
  archives: ArchiveStore
  queue: JobQueue
  databasesPerNodeMax: number
  backupSchedule: BackupSchedule | null
  prices: Prices
  now: () => Date
  log: Logger
}

/** Brings back every database of this machine, then works on jobs until it is closed. */
export async function startPlatformNode(options: PlatformNodeOptions): Promise<PlatformNode> {
  const { db, node, queue, log, driver, archives } = options
  const note = (text: string) => log.info({ node }, text)
  const held = await acquire({ dataDir: options.dataDir, name: options.holdName, purpose: 'serve', note })
  if (held.kind !== 'held') throw new Error('a server never shares a data directory')
  const { hold } = held
  const turns = createTurns()
  const closing = new AbortController()
  const { databasesPerNodeMax } = options
  const common = { db, driver, archives, node, databasesPerNodeMax, queue, turns }
  const handlers = {
    ...createProvisioning(common),
    ...createBackingUp(common),
    ...createRestoring(common),
    ...createRemoval(common),
  }
  let timer: NodeJS.Timeout | undefined
  let preparing: NodeJS.Timeout | undefined
  let announcing: NodeJS.Timeout | undefined

  async function close(): Promise<void> {
    closing.abort()
    clearInterval(timer)
    clearTimeout(preparing)
    clearInterval(announcing)
    await withdrawNode(db, node).catch((err) => log.warn({ err }, 'node.not_withdrawn'))
    turns.interruptAll(new Error('Keyhook is stopping'))
    await queue.close()
    await driver.close()
    await hold.release()
  }

  try {
    const boss = await queue.boss()
    const mine = nodeQueue(node)
    await ensureQueues(boss, mine)
    // After its queue, into which whoever places a database here puts the job.
    await announceNode(db, node, databasesPerNodeMax)
    announcing = setInterval(
      () => void announceNode(db, node, databasesPerNodeMax).catch((err) => log.warn({ err }, 'node.not_announced')),
      announceMs,
    )
    // Placing twice at the same time is harmless: the row is locked, and placed once.
    for (const name of [mine, givenUp(mine), anyNode, givenUp(anyNode)]) {
      const count = await reclaim(boss, name)
      if (count > 0) log.info({ queue: name, count }, 'jobs.reclaimed')
    }
    await recover({ ...common, log, signal: closing.signal })
    await workOn(boss, mine, workersMax, { db, queue, handlers, log })
    await workOn(boss, anyNode, placersMax, { db, queue, handlers, log })
    await boss.schedule(invoicing, invoicingCron, null, { tz: 'UTC' })
    await boss.work(invoicing, async () => {
      const invoices = await issueLastMonth(options)
      if (invoices.length > 0) log.info({ invoices }, 'invoices.issued')
    })
    const { backupSchedule } = options
    if (backupSchedule !== null) {
      const pass = () =>
        runBackupSchedule({ db, queue, node }, backupSchedule).catch((err) =>
          log.warn({ err }, 'backups.not_scheduled'),
        )
      timer = setInterval(pass, schedulePassMs)
      void pass()
    }
    log.info({ node }, 'platform.ready')
    const prepare = () => void driver.prepare().catch((err) => log.debug({ err }, 'platform.not_prepared'))
    preparing = setTimeout(prepare, prepareAfterMs)
    preparing.unref()
  } catch (error) {
    await close().catch(() => {})
    throw error
  }
  return { close }
}
