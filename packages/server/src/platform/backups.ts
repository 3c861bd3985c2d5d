import { type Database, isUniqueViolation, type Transaction } from '../db/database.ts'
import type { Actor, AuditEntry } from '../domain/audit.ts'
import { type BackupOrigin, isListed, moveBackup, wasCancelled } from '../domain/backup.ts'
import { Fault, notFound } from '../kernel/faults.ts'
import { type BackupId, type DatabaseId, newId, type OrgId, type UserId } from '../kernel/ids.ts'
import { recordAudit } from '../store/audit.ts'
import {
  type BackupRow,
  insertBackup,
  lockBackup,
  oneBackupAtATime,
  setBackupStatus,
} from '../store/platform/backups.ts'
import { lockDatabase } from '../store/platform/databases.ts'
import { restoresReading } from '../store/platform/restores.ts'
import type { Transact } from '../store/publishing-transaction.ts'
import type { JobQueue } from './jobs/queue.ts'
import { failBackup } from './steps/settle-failure.ts'

/*
 * Starts and removes backups, for a person or for the schedule. A request that is not possible now throws a fault, which a
 * person reads and the schedule skips.
 */
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

/** It is failed when this returns; the node that takes it notices within a second, and removes what it has stored. */
export const cancelBackup = (
  transact: Transact,
  { orgId, backupId, actor }: { orgId: OrgId; backupId: BackupId; actor: Actor },
): Promise<BackupRow> =>
  transact(async (tx) => {
    const backup = await lockBackup(tx, orgId, backupId)
    if (backup === null || !isListed(backup) || backup.status === 'deleted')
      throw notFound(`${backupId} is not in ${orgId}`)
    if (backup.status !== 'running')
      throw new Fault('backup.not_running', {
        public: `The backup is ${backup.status}; only one that is running can be cancelled.`,
      })
    await recordAudit(tx, { orgId, action: 'backup.cancelled', actor, targetId: backupId })
    await failBackup(tx, orgId, backupId, wasCancelled)
    return (await lockBackup(tx, orgId, backupId))!
  })

/** `base`: the start of a log may be removed too, which nobody but the schedule asks for. */
type BackupRemoval = { orgId: OrgId; backupId: BackupId; actor: Actor; details?: Details; base?: boolean }

/** Returns the backup as it is being removed. A second call changes nothing. */
export async function removeBackup({ db, queue }: Deps, request: BackupRemoval): Promise<BackupRow> {
  const { orgId, backupId, actor, details = {} } = request
  return db.begin(async (tx) => {
    const backup = await lockBackup(tx, orgId, backupId)
    const isKnown = backup !== null && (isListed(backup) || request.base === true)
    if (!isKnown || backup.status === 'deleted') throw notFound(`${backupId} is not in ${orgId}`)
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
