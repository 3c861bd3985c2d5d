import type { Logger } from 'pino'
import type { Database } from '../db/database.ts'
import type { KeyedQueue } from '../kernel/keyed-queue.ts'
import { archivedBackups } from '../store/platform/backups.ts'
import { databaseStatuses, nodeWasUsed } from '../store/platform/databases.ts'
import type { BackupArchives } from './archive/backup-archives.ts'
import type { DatabaseDriver } from './driver.ts'

type Deps = {
  db: Database
  driver: DatabaseDriver
  archives: BackupArchives
  node: string
  databaseWork: KeyedQueue
  log: Logger
}

const isOver = (status: string): boolean => status === 'failed' || status === 'deleted'

/**
 * Removes files whose row is failed or deleted: a process was killed in between, or this node counted as dead. Files without
 * a row are only reported, because this may be the wrong database for this disk.
 */
export async function removeLeftoverFiles({ db, driver, archives, node, databaseWork, log }: Deps): Promise<void> {
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
  // Only backups and restores need archives: the databases run without that disk.
  const archived = await archives.existing().catch((err) => {
    log.error({ err }, 'archives.cannot_be_read')
    return []
  })
  const backups = await archivedBackups(db, archived)
  for (const id of archived) {
    const backup = backups.get(id)
    if (backup === undefined) log.warn({ backupId: id }, 'archive.unknown')
    else if (isOver(backup.status)) {
      const archive = { databaseId: backup.databaseId, backupId: id }
      await archives.remove(archive).catch((err) => log.error({ err, backupId: id }, 'archive.not_removed'))
    }
  }
}
