import type { PublishingTransaction } from '../db/publishing-transaction.ts'
import { publish } from '../delivery/publish.ts'
import type { BackupId, DatabaseId, OrgId, RestoreId } from '../lib/ids.ts'
import { isListed, moveBackup, moveRestore } from './backup.ts'
import {
  lockBackup,
  lockRestore,
  markBackupGivenUp,
  markRestoreGivenUp,
  runningBackupsOf,
  runningRestoreInto,
} from './sql.ts'

/*
 * Marks a backup or restore as failed and publishes its event in one transaction. One that has an outcome already stays as it
 * is, and nothing is published.
 */
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

/** Ends the backups of a database and the restore into it. */
export async function failBackupsOf(
  tx: PublishingTransaction,
  orgId: OrgId,
  databaseId: DatabaseId,
  reason: string,
): Promise<void> {
  const restoreId = await runningRestoreInto(tx, orgId, databaseId)
  if (restoreId !== null) await failRestore(tx, orgId, restoreId, reason)
  for (const backupId of await runningBackupsOf(tx, orgId, databaseId)) await failBackup(tx, orgId, backupId, reason)
}
