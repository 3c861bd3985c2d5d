import { type Actor, recordAudit } from '../access/audit.ts'
import { type CreationDeps, insertWithinLimit } from '../databases/rules.ts'
import { type DatabaseRow, findDatabase } from '../databases/sql.ts'
import { findBaseBackup, findWalArchive, holdWalArchive } from '../databases/wal-sql.ts'
import type { Transaction } from '../db/database.ts'
import { Fault, notFound } from '../lib/faults.ts'
import { type BackupId, type DatabaseId, newId, type OrgId, type UserId } from '../lib/ids.ts'
import { isoTime } from '../lib/time.ts'
import { isListed } from './backup.ts'
import { type BackupRow, insertRestore, lockBackup, type RestoreRow } from './sql.ts'

type RestoreRequest = { orgId: OrgId; userId: UserId; actor: Actor; name: string; passwordVerifier: string }

/** A restore, and the new database that it fills. */
export type BegunRestore = { restore: RestoreRow; database: DatabaseRow }

/** Call it, like the next one, with the organization locked. */
export async function restoreBackup(
  tx: Transaction,
  deps: CreationDeps,
  request: RestoreRequest & { backupId: BackupId },
): Promise<BegunRestore> {
  const { orgId, backupId } = request
  const backup = await lockBackup(tx, orgId, backupId)
  if (backup === null || !isListed(backup) || backup.status === 'deleted')
    throw notFound(`${backupId} is not in ${orgId}`)
  if (backup.status !== 'completed') {
    throw new Fault('backup.not_completed', {
      public: `The backup is ${backup.status}; only a completed one can be restored.`,
    })
  }
  return beginRestore(tx, deps, request, backup, null)
}

export async function restoreToTime(
  tx: Transaction,
  deps: CreationDeps,
  request: RestoreRequest & { databaseId: DatabaseId; to: Date },
): Promise<BegunRestore> {
  const backup = await baseBackupFor(tx, request.orgId, request.databaseId, request.to)
  return beginRestore(tx, deps, request, backup, request.to)
}

async function baseBackupFor(tx: Transaction, orgId: OrgId, id: DatabaseId, to: Date): Promise<BackupRow> {
  const database = await findDatabase(tx, orgId, id)
  if (database === null) throw notFound(`${id} is not in ${orgId}`)
  await holdWalArchive(tx, orgId, id)
  const base = await findBaseBackup(tx, orgId, id, to)
  const backup = base && (await lockBackup(tx, orgId, base.id))
  if (backup?.status === 'completed') return backup
  const isArchived = (await findWalArchive(tx, orgId, id)) !== null
  throw new Fault('restore.outside_window', { public: outside(database, { to, isArchived }) })
}

/** Why this time cannot be restored, and which ones can. */
function outside(
  { recovery_from: from, recovery_to: until }: DatabaseRow,
  { to, isArchived }: { to: Date; isArchived: boolean },
): string {
  if (!from || !until) {
    return isArchived
      ? 'This database cannot be restored to a time yet: its write-ahead log is stored from its first backup on, and that backup has to end first. Try again in a minute.'
      : 'This database cannot be restored to a time: none of its write-ahead log is stored.'
  }
  const range = `It can be restored to times from ${isoTime(from)} to ${isoTime(until)}.`
  if (to.getTime() > Date.now()) return `\`to\` lies in the future. ${range}`
  if (to > until) return `The write-ahead log of that time is not stored yet. ${range} Try again in a minute.`
  return `\`to\` is before the first time that is kept. ${range}`
}

/** Creates the new database and its restore, from a backup that the caller has locked. `to`: replays the log up to then. */
async function beginRestore(
  tx: Transaction,
  deps: CreationDeps,
  { orgId, userId, actor, name, passwordVerifier }: RestoreRequest,
  backup: BackupRow,
  to: Date | null,
): Promise<BegunRestore> {
  const { node } = backup
  const wanted = { id: newId('db'), name, passwordVerifier, node, createdBy: userId, copyOf: backup.database_id }
  const database = await insertWithinLimit(tx, orgId, wanted, deps.databasesPerOrgMax)
  const id = newId('rst')
  const restore = await insertRestore(tx, orgId, {
    id,
    backupId: backup.id,
    databaseId: database.id,
    to,
    bytesTotal: backup.bytes_total,
    createdBy: userId,
  })
  const details = { backup_id: backup.id, database_id: database.id, name, ...(to && { to: isoTime(to) }) }
  await recordAudit(tx, { orgId, action: 'restore.created', actor, targetId: id, details })
  // To the node that has the archive.
  await deps.enqueue(tx, { kind: 'restore.run', orgId, restoreId: id, node })
  return { restore, database }
}
