import { isListed, moveBackup } from '../../domain/backup.ts'
import { moveDatabase } from '../../domain/database.ts'
import { moveRestore } from '../../domain/restore.ts'
import type { BackupId, OrgId, RestoreId } from '../../kernel/ids.ts'
import { lockBackup, markBackupGivenUp } from '../../store/platform/backups.ts'
import { type LockedDatabase, markDatabaseGivenUp } from '../../store/platform/databases.ts'
import { lockRestore, markRestoreGivenUp } from '../../store/platform/restores.ts'
import type { PublishingTransaction } from '../../store/publishing-transaction.ts'
import { publish } from '../../webhooks/publish.ts'

/*
 * Marks a database, backup or restore as failed and publishes its event in one transaction. One that has an outcome
 * already stays as it is, and nothing is published.
 */

/** The row is locked by the caller, who has to check first that the database is still on its node. */
export async function failDatabase(
  tx: PublishingTransaction,
  orgId: OrgId,
  { id, name, status }: LockedDatabase,
  reason: string,
): Promise<void> {
  const next = moveDatabase(status, 'give_up')
  if (next === null) return
  await markDatabaseGivenUp(tx, orgId, id, next, reason)
  await publish(tx, { orgId, type: 'database.failed', data: { database_id: id, name, reason } })
}

export async function failBackup(tx: PublishingTransaction, orgId: OrgId, id: BackupId, reason: string): Promise<void> {
  const backup = await lockBackup(tx, orgId, id)
  if (backup === null) return
  const next = moveBackup(backup.status, 'give_up')
  if (next === null) return
  await markBackupGivenUp(tx, orgId, id, next, reason)
  if (!isListed(backup)) return
  const data = { backup_id: id, database_id: backup.database_id, reason }
  await publish(tx, { orgId, type: 'backup.failed', data })
}

/** A failed restore has no event of its own: `database.failed` of its new database reports it. */
export async function failRestore(
  tx: PublishingTransaction,
  orgId: OrgId,
  id: RestoreId,
  reason: string,
): Promise<void> {
  const restore = await lockRestore(tx, orgId, id)
  const next = restore && moveRestore(restore.status, 'give_up')
  if (next !== null) await markRestoreGivenUp(tx, orgId, id, next, reason)
}
