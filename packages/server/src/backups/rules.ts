import { type Actor, type AuditEntry, recordAudit } from '../access/audit.ts'
import { otherDatabases } from '../access/authenticate.ts'
import { findQuotas, limitOf } from '../access/quotas.ts'
import { type CreationDeps, type CreationRequest, insertWithinLimit } from '../databases/rules.ts'
import { type DatabaseRow, findDatabase, lockDatabase } from '../databases/sql.ts'
import { archivedBytes, findBaseBackup, findWalArchive, holdWalArchive } from '../databases/wal-sql.ts'
import {
  type Database,
  type Executor,
  isUniqueViolation,
  type PublishingTransaction,
  type Transact,
  type Transaction,
} from '../db/database.ts'
import { publish } from '../delivery/publish.ts'
import type { JobQueue } from '../jobs/queue.ts'
import { Fault, notFound } from '../lib/faults.ts'
import { type BackupId, type DatabaseId, newId, type OrgId, type RestoreId, type UserId } from '../lib/ids.ts'
import { StepFailure } from '../lib/step-failure.ts'
import { isoTime } from '../lib/time.ts'
import { inMegabytes } from '../lib/units.ts'
import { notifyOwners } from '../mail/notices.ts'
import { type BackupOrigin, isListed, moveBackup, moveRestore, wasCancelled } from './backup.ts'
import {
  type BackupRow,
  findBackup,
  insertBackup,
  insertRestore,
  lockBackup,
  lockRestore,
  markBackupGivenUp,
  markRestoreGivenUp,
  oneBackupAtATime,
  type RestoreRow,
  restoresReading,
  runningBackupsOf,
  runningRestoreInto,
  setBackupStatus,
} from './sql.ts'

/* A request that is not possible now throws a fault, which a person reads and the schedule skips. */
type Deps = { db: Database; queue: Pick<JobQueue, 'enqueue'> }

/** For the audit log. */
type Details = NonNullable<AuditEntry['details']>

type BackupRequest = {
  orgId: OrgId
  databaseId: DatabaseId
  origin: BackupOrigin
  /** Null for a scheduled backup. */
  userId: UserId | null
  actor: Actor
  details?: Details
}

export const beginBackup = (deps: Deps, request: BackupRequest): Promise<BackupRow> =>
  beginBackupWithin(deps, request, (_tx, create) => create())

/** `within` runs in the transaction of the backup, and decides whether to create it. */
export async function beginBackupWithin<T>(
  { db, queue }: Deps,
  request: BackupRequest,
  within: (tx: Transaction, create: () => Promise<BackupRow>) => Promise<T>,
): Promise<T> {
  const { orgId, databaseId, origin, userId, actor } = request
  const create = async (tx: Transaction): Promise<BackupRow> => {
    const source = await lockDatabase(tx, orgId, databaseId)
    if (source === null || source.status === 'deleted') throw notFound(`${databaseId} is not in ${orgId}`)
    if (source.status !== 'available' || source.node === null) {
      throw new Fault('database.not_available', {
        public: `The database is ${source.status}; only one that is available can be backed up.`,
      })
    }
    const { node } = source
    const id = newId('bak')
    const row = await insertBackup(tx, orgId, { id, databaseId, node, origin, createdBy: userId })
    const details = { database_id: databaseId, ...request.details }
    if (isListed(row)) await recordAudit(tx, { orgId, action: 'backup.created', actor, targetId: id, details })
    await queue.enqueue(tx, { kind: 'backup.take', orgId, backupId: id, node })
    return row
  }
  return db
    .begin((tx) => within(tx, () => create(tx)))
    .catch((error: unknown) => {
      if (!isUniqueViolation(error, oneBackupAtATime)) throw error
      throw new Fault('backup.already_running', { public: 'A backup of this database is being taken already.' })
    })
}

/** `base`: it may also be the base of a WAL archive. */
async function lockListed(
  tx: Transaction,
  orgId: OrgId,
  id: BackupId,
  { base = false }: { base?: boolean } = {},
): Promise<BackupRow> {
  const backup = await lockBackup(tx, orgId, id)
  if (backup !== null && backup.status !== 'deleted' && (base || isListed(backup))) return backup
  throw notFound(`${id} is not in ${orgId}`)
}

/** It is failed when this returns; the node that takes it notices within a second, and removes what it has stored. */
export const cancelBackup = (
  transact: Transact,
  { orgId, backupId, actor }: { orgId: OrgId; backupId: BackupId; actor: Actor },
): Promise<BackupRow> =>
  transact(async (tx) => {
    const backup = await lockListed(tx, orgId, backupId)
    if (backup.status !== 'running')
      throw new Fault('backup.not_running', {
        public: `The backup is ${backup.status}; only one that is running can be cancelled.`,
      })
    await recordAudit(tx, { orgId, action: 'backup.cancelled', actor, targetId: backupId })
    await failBackup(tx, orgId, backupId, wasCancelled)
    return (await lockBackup(tx, orgId, backupId))!
  })

/** `base`: the base of a WAL archive may be removed too, which nobody but the schedule asks for. */
type BackupRemoval = { orgId: OrgId; backupId: BackupId; actor: Actor; details?: Details; base?: boolean }

/** Returns the backup as it is being removed. A second call changes nothing. */
export async function removeBackup({ db, queue }: Deps, request: BackupRemoval): Promise<BackupRow> {
  const { orgId, backupId, actor, details = {} } = request
  return db.begin(async (tx) => {
    const backup = await lockListed(tx, orgId, backupId, request)
    if (backup.status === 'deleting') return backup
    const next = moveBackup(backup.status, 'remove')
    if (next === null)
      throw new Fault('backup.still_running', { public: 'The backup is being taken; wait for its end.' })
    if ((await restoresReading(tx, orgId, backupId)) > 0) {
      throw new Fault('backup.being_restored', { public: 'A restore is reading this backup; wait for its end.' })
    }
    await setBackupStatus(tx, orgId, backupId, next)
    if (isListed(backup)) await recordAudit(tx, { orgId, action: 'backup.deleted', actor, targetId: backupId, details })
    await queue.enqueue(tx, { kind: 'backup.remove', orgId, backupId, node: backup.node })
    return { ...backup, status: next }
  })
}

/** A restore, and the new database that it fills. */
export type BegunRestore = { restore: RestoreRow; database: DatabaseRow }

/** Call it, like the next one, with the organization locked. */
export async function restoreBackup(
  tx: Transaction,
  deps: CreationDeps,
  request: CreationRequest & { backupId: BackupId },
): Promise<BegunRestore> {
  const { orgId, backupId } = request
  const backup = await lockListed(tx, orgId, backupId)
  if (backup.status !== 'completed') {
    const text = `The backup is ${backup.status}; only a completed one can be restored.`
    throw new Fault('backup.not_completed', { public: text })
  }
  return beginRestore(tx, deps, request, backup, null)
}

export async function restoreToTime(
  tx: Transaction,
  deps: CreationDeps,
  request: CreationRequest & { databaseId: DatabaseId; to: Date },
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
  { orgId, userId, actor, name, passwordVerifier }: CreationRequest,
  backup: BackupRow,
  to: Date | null,
): Promise<BegunRestore> {
  const { node } = backup
  const wanted = { id: newId('db'), name, passwordVerifier, node, createdBy: userId, copyOf: backup.database_id }
  const database = await insertWithinLimit(tx, orgId, wanted, deps)
  const id = newId('rst')
  const source = { id, backupId: backup.id, bytesTotal: backup.bytes_total }
  const restore = await insertRestore(tx, orgId, { ...source, databaseId: database.id, to, createdBy: userId })
  const details = { backup_id: backup.id, database_id: database.id, name, ...(to && { to: isoTime(to) }) }
  await recordAudit(tx, { orgId, action: 'restore.created', actor, targetId: id, details })
  // To the node that has the archive.
  await deps.enqueue(tx, { kind: 'restore.run', orgId, restoreId: id, node })
  return { restore, database }
}

/* Marks it failed and publishes its event, in one transaction. One that has an outcome already stays as it is, without an event. */
export async function failBackup(tx: PublishingTransaction, orgId: OrgId, id: BackupId, reason: string): Promise<void> {
  const backup = await lockBackup(tx, orgId, id)
  if (backup === null) return
  const next = moveBackup(backup.status, 'give_up')
  if (next === null) return
  await markBackupGivenUp(tx, orgId, id, next, reason)
  if (!isListed(backup)) return
  const { database_id: databaseId } = backup
  const database = await findDatabase(tx, orgId, databaseId)
  // Who cancels a backup, or deletes its database, knows it.
  if (database !== null && database.status !== 'deleting' && reason !== wasCancelled)
    await notifyOwners(tx, orgId, [{ kind: 'backup.failed', databaseId, name: database.name, problem: reason }])
  const data = { backup_id: id, database_id: databaseId, reason }
  await publish(tx, { orgId, type: 'backup.failed', data })
}

/** A failed restore has no event of its own: `database.failed` of its new database reports it. */
export async function failRestore(tx: Transaction, orgId: OrgId, id: RestoreId, reason: string): Promise<void> {
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

/** Why the organization may store nothing more, for its members; null if it may. `moreBytes`: what is about to be kept. */
export async function archiveProblem(
  db: Executor,
  orgId: OrgId,
  setting: number,
  moreBytes = 0,
): Promise<string | null> {
  const [bytes, quotas] = [await archivedBytes(db, orgId), await findQuotas(db, orgId)]
  const { max: bytesMax, isOwn } = limitOf(quotas.archive_bytes, setting)
  if (bytes + moreBytes <= bytesMax && bytes < bytesMax) return null
  const what = moreBytes === 0 ? 'take' : `with this one would take`
  return `The backups and write-ahead logs of this organization ${what} ${inMegabytes(bytes + moreBytes)}, ${isOwn ? 'and the operator has limited this organization to' : 'and may take'} ${inMegabytes(bytesMax)}. Delete backups, or ask the operator for more${isOwn ? '' : ' (KEYHOOK_ARCHIVES_PER_ORG_MAX)'}.`
}

/** For a request. */
export async function checkArchiveQuota(db: Executor, orgId: OrgId, bytesMax: number): Promise<void> {
  const problem = await archiveProblem(db, orgId, bytesMax)
  if (problem !== null) throw new Fault('limit.reached', { public: problem })
}

/** For a job, which fails with the reason. */
export async function requireArchiveQuota(
  db: Executor,
  orgId: OrgId,
  bytesMax: number,
  moreBytes?: number,
): Promise<void> {
  const problem = await archiveProblem(db, orgId, bytesMax, moreBytes)
  if (problem !== null) throw new StepFailure(problem, { permanent: true })
}

/** The database of a backup never changes, so it can be looked at before the backup is locked. */
export async function readBackup(
  db: Database,
  { orgId, backupId, databases }: { orgId: OrgId; backupId: BackupId; databases: readonly DatabaseId[] | null },
): Promise<BackupRow> {
  const row = await findBackup(db, orgId, backupId)
  if (row === null || !isListed(row)) throw notFound(`${backupId} is not in ${orgId}`)
  if (databases !== null && !databases.includes(row.database_id)) throw otherDatabases()
  return row
}
