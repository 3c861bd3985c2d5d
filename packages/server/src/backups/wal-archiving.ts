import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { operator } from '../access/audit.ts'
import type { DatabaseDriver } from '../databases/drivers/driver.ts'
import {
  type ArchivedDatabase,
  archivesOfDeleted,
  databasesToArchive,
  deleteWalArchive,
  needsBase,
  pruneWalArchive,
  recordArchivedWal,
  resetStoredBytes,
} from '../databases/wal-sql.ts'
import type { Database } from '../db/database.ts'
import type { JobQueue } from '../jobs/queue.ts'
import { traceStep } from '../jobs/worker.ts'
import { Fault } from '../lib/faults.ts'
import type { DatabaseId } from '../lib/ids.ts'
import { NotRunning } from '../lib/step-failure.ts'
import { beginBackup, requireArchiveQuota } from './rules.ts'

type Deps = {
  db: Database
  driver: DatabaseDriver
  queue: JobQueue
  node: string
  /** How often the WAL of each database is stored, and so about how much of it can be lost with the disk. */
  everySeconds: number
  /** So much stored WAL makes a new base, with which the oldest one and its WAL are removed. */
  bytesPerBaseMax: number
  /** What the backups and WAL of one organization may take. */
  archivesPerOrgMax: number
  /** Aborts when the disk of the archives gets low. Never, if they are elsewhere. */
  room(): AbortSignal
  /** After every attempt; null when the database is not here any more. */
  onArchived(id: DatabaseId, until: Date | null): void
  /** The databases whose WAL is being stored now. */
  archiving: Set<DatabaseId>
  signal: AbortSignal
  log: Logger
}

const checkMs = 1_000
const pruneEveryMs = 60_000

/** Each holds a segment of 16 MB. */
const atOnceMax = 4
const attemptMsMax = 10 * 60_000
const origin = 'base' as const

/** How many hours of WAL a restore replays at most. */
const baseEveryHours = 24

/** Stores the WAL of every database of this node every `everySeconds`, and removes what no kept backup needs. */
export async function runWalArchiving(deps: Deps): Promise<void> {
  const { signal, log } = deps
  const active = new Map<DatabaseId, Promise<void>>()
  const dueMs = new Map<DatabaseId, number>()
  let pruneMs = 0

  const begin = (database: ArchivedDatabase) => {
    const { id } = database
    const attempt = archive(deps, database)
      .then(
        () => deps.everySeconds * 1_000,
        (err) => {
          if (database.archived_until !== null) deps.onArchived(id, database.archived_until)
          // It is starting; if it cannot, that is reported where it starts.
          if (err instanceof NotRunning) return checkMs
          if (!signal.aborted) log.error({ err, databaseId: id }, 'wal.not_archived')
          return deps.everySeconds * 1_000
        },
      )
      .then((pauseMs) => {
        active.delete(id)
        deps.archiving.delete(id)
        dueMs.set(id, Date.now() + pauseMs)
      })
    active.set(id, attempt)
    deps.archiving.add(id)
  }

  while (!signal.aborted) {
    try {
      const databases = await databasesToArchive(deps.db, deps.node)
      const ids = new Set(databases.map(({ id }) => id))
      for (const id of dueMs.keys()) {
        if (ids.has(id)) continue
        dueMs.delete(id)
        deps.onArchived(id, null)
      }
      const due = databases.filter(({ id }) => !active.has(id) && (dueMs.get(id) ?? 0) <= Date.now())
      due.sort((a, b) => (dueMs.get(a.id) ?? 0) - (dueMs.get(b.id) ?? 0))
      for (const database of due.slice(0, atOnceMax - active.size)) begin(database)
      if (pruneMs <= Date.now()) {
        await prune(deps, databases)
        pruneMs = Date.now() + pruneEveryMs
      }
    } catch (err) {
      log.warn({ err }, 'wal.pass_failed')
    }
    await sleep(checkMs, undefined, { signal }).catch(() => {})
  }
  await Promise.all(active.values())
}

async function archive(deps: Deps, database: ArchivedDatabase): Promise<void> {
  const { org_id: orgId, id, until_lsn: after, is_encrypted: isEncrypted } = database
  await requireArchiveQuota(deps.db, orgId, deps.archivesPerOrgMax)
  const signal = AbortSignal.any([deps.signal, deps.room(), AbortSignal.timeout(attemptMsMax)])
  const archived = await deps.driver.archiveWal(id, { after, isEncrypted, signal })
  if (archived.until !== after) traceStep('wal.recording', id)
  // A gap: times before it cannot be restored any more, and a new backup is needed.
  if (archived.from !== null && after !== null) deps.log.error({ databaseId: id, ...archived }, 'wal.gap')
  await deps.db.begin((tx) => recordArchivedWal(tx, orgId, id, { ...archived, node: deps.node }))
  deps.onArchived(id, archived.at)
  if (!(await needsBase(deps.db, orgId, id, { hours: baseEveryHours, bytesMax: deps.bytesPerBaseMax }))) return
  try {
    await beginBackup(deps, { orgId, databaseId: id, origin, userId: null, actor: operator })
    await resetStoredBytes(deps.db, orgId, id)
  } catch (error) {
    // Deleted in the meantime.
    if (!(error instanceof Fault)) throw error
  }
}

/** The row is changed first: a restore never counts on WAL that is being removed. */
async function prune(deps: Deps, databases: readonly ArchivedDatabase[]): Promise<void> {
  const { db, driver, log } = deps
  for (const { org_id: orgId, id } of databases) {
    const from = await db.begin((tx) => pruneWalArchive(tx, orgId, id))
    if (from === null) continue
    await driver.removeWal(id, from).catch((err) => log.warn({ err, databaseId: id }, 'wal.not_removed'))
  }
  for (const { org_id: orgId, id } of await archivesOfDeleted(db, deps.node)) {
    await driver
      .removeWal(id, null)
      .then(() => deleteWalArchive(db, orgId, id))
      .catch((err) => log.warn({ err, databaseId: id }, 'wal.not_removed'))
  }
}
