import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { operator } from '../access/audit.ts'
import type { DatabaseDriver } from '../databases/drivers/driver.ts'
import { databaseStatuses, databasesDueForBackup, nodeWasUsed } from '../databases/sql.ts'
import { type Database, isUnavailable } from '../db/database.ts'
import type { JobQueue } from '../jobs/queue.ts'
import { Fault } from '../lib/faults.ts'
import type { KeyedQueue } from '../lib/keyed-queue.ts'
import { beginBackup, removeBackup } from './rules.ts'
import { archivedBackups, expiredBackups } from './sql.ts'

type Deps = { db: Database; queue: JobQueue; node: string }

const passEveryMs = 60_000
const origin = 'scheduled' as const

/** For databases without a schedule of their own. `everyHours` is null if they have no scheduled backups. */
export type BackupSchedule = { everyHours: number | null; keep: number }

/** Repeats the pass until the signal aborts. The pause comes after each pass, so that two never overlap. */
export async function watchBackupSchedule(
  deps: Deps & { signal: AbortSignal; log: Logger; pauseMs?: number },
  settings: BackupSchedule,
): Promise<void> {
  const { signal, log, pauseMs = passEveryMs } = deps
  while (!signal.aborted) {
    await runBackupSchedule(deps, settings).catch((err) => log.warn({ err }, 'backups.schedule_failed'))
    await sleep(pauseMs, undefined, { signal }).catch(() => {})
  }
}

/** One pass: starts the backups that are due and removes those beyond the number kept. A failure does not stop it, and is thrown at the end. */
export async function runBackupSchedule(deps: Deps, { everyHours, keep }: BackupSchedule): Promise<void> {
  const failed: unknown[] = []
  const collect = (error: unknown) => {
    // The backup or database was changed since the query, so there is nothing left to do.
    if (error instanceof Fault) return
    // Then the others would fail as well.
    if (isUnavailable(error)) throw error
    failed.push(error)
  }
  for (const { org_id: orgId, id: databaseId } of await databasesDueForBackup(deps.db, deps.node, everyHours)) {
    const request = { orgId, databaseId, origin, userId: null, actor: operator, details: { origin } }
    await beginBackup(deps, request).catch(collect)
  }
  for (const { org_id: orgId, id: backupId } of await expiredBackups(deps.db, deps.node, keep)) {
    const request = { orgId, backupId, actor: operator, details: { origin, why: 'retention' }, base: true }
    await removeBackup(deps, request).catch(collect)
  }
  if (failed.length > 0) throw new AggregateError(failed, `${failed.length} backups could not be started or removed`)
}

type FileDeps = Omit<Deps, 'queue'> & { driver: DatabaseDriver; databaseWork: KeyedQueue; log: Logger }

const isOver = (status: string): boolean => status === 'failed' || status === 'deleted'

/**
 * Removes files whose row is failed or deleted: a process was killed in between, or this node counted as dead. Files without
 * a row are only reported, because this may be the wrong database for this disk.
 */
export async function removeLeftoverFiles({ db, driver, node, databaseWork, log }: FileDeps): Promise<void> {
  if (!(await nodeWasUsed(db, node))) return
  const instances = await driver.existing()
  const statuses = await databaseStatuses(db, instances)
  for (const id of instances) {
    const status = statuses.get(id)
    if (status === undefined) log.warn({ databaseId: id }, 'instance.unknown')
    else if (isOver(status)) {
      await databaseWork
        .run(id, () => driver.remove(id))
        .catch((err) => log.error({ err, databaseId: id }, 'instance.not_removed'))
    }
  }
  // Only backups and restores need the store: the databases run without it.
  const archived = await driver.existingBackups().catch((err) => {
    log.error({ err }, 'archives.cannot_be_read')
    return []
  })
  const backups = await archivedBackups(db, archived)
  for (const id of archived) {
    const backup = backups.get(id)
    if (backup === undefined) log.warn({ backupId: id }, 'archive.unknown')
    else if (isOver(backup.status)) {
      const of = { databaseId: backup.databaseId, backupId: id }
      await driver.removeBackup(of).catch((err) => log.error({ err, backupId: id }, 'archive.not_removed'))
    }
  }
}

/** Where several processes act for the databases: one that was slower than its heartbeat can create what another one has removed. */
export async function watchLeftoverFiles(deps: FileDeps & { signal: AbortSignal }): Promise<void> {
  const { signal, log } = deps
  while (!signal.aborted) {
    await sleep(passEveryMs, undefined, { signal, ref: false }).catch(() => {})
    if (signal.aborted) return
    await removeLeftoverFiles(deps).catch((err) => log.warn({ err }, 'node.leftover_files_not_removed'))
  }
}
