import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import type { DatabaseDriver } from '../databases/drivers/driver.ts'
import { databaseStatuses, nodeWasUsed } from '../databases/sql.ts'
import type { Database } from '../db/database.ts'
import type { KeyedQueue } from '../lib/keyed-queue.ts'
import { archivedBackups } from './sql.ts'

type Deps = {
  db: Database
  driver: DatabaseDriver
  node: string
  databaseWork: KeyedQueue
  log: Logger
}

const everyMs = 60_000

const isOver = (status: string): boolean => status === 'failed' || status === 'deleted'

/**
 * Removes files whose row is failed or deleted: a process was killed in between, or this node counted as dead. Files without
 * a row are only reported, because this may be the wrong database for this disk.
 */
export async function removeLeftoverFiles({ db, driver, node, databaseWork, log }: Deps): Promise<void> {
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

/**
 * Again and again, where several processes act for the databases: one that was slower than its heartbeat can create what another one
 * has removed.
 */
export async function watchLeftoverFiles(deps: Deps & { signal: AbortSignal }): Promise<void> {
  const { signal, log } = deps
  while (!signal.aborted) {
    await sleep(everyMs, undefined, { signal, ref: false }).catch(() => {})
    if (signal.aborted) return
    await removeLeftoverFiles(deps).catch((err) => log.warn({ err }, 'node.leftover_files_not_removed'))
  }
}
