import type { Transaction } from '../../db/database.ts'
import type { Actor } from '../../domain/audit.ts'
import { mintDatabasePassword } from '../../domain/database.ts'
import { scramVerifier } from '../../domain/scram.ts'
import { newId, type OrgId, type UserId } from '../../kernel/ids.ts'
import { isoTime } from '../../kernel/iso-time.ts'
import { recordAudit } from '../../store/audit.ts'
import type { BackupRow } from '../../store/platform/backups.ts'
import { insertDatabase } from '../../store/platform/databases.ts'
import { insertRestore, type RestoreRow } from '../../store/platform/restores.ts'
import type { Created } from '../route.ts'
import { createDatabaseOf, type Enqueue, tooManyDatabases } from './databases.ts'

type Secret = { password: string; passwordVerifier: string }

export type RestoreDeps = { enqueue: Enqueue; databasesPerOrgMax: number; hasTls: boolean }

/** Before the transaction: the verifier takes thousands of hashes. */
export async function newPassword(): Promise<Secret> {
  const password = mintDatabasePassword()
  return { password, passwordVerifier: await scramVerifier(password) }
}

/** Creates the new database and its restore, from a backup that the caller has locked. `to`: replays the log up to then. */
export async function beginRestore(
  tx: Transaction,
  deps: RestoreDeps,
  asked: {
    orgId: OrgId
    userId: UserId
    actor: Actor
    name: string
    backup: BackupRow
    to: Date | null
    secret: Secret
  },
): Promise<Created> {
  const { orgId, userId, actor, name, backup, to, secret } = asked
  const { node } = backup
  const { password, passwordVerifier } = secret
  const wanted = { id: newId('db'), name, passwordVerifier, node, createdBy: userId, copyOf: backup.database_id }
  const database = await insertDatabase(tx, orgId, wanted, deps.databasesPerOrgMax)
  if (database === null) throw tooManyDatabases(deps.databasesPerOrgMax)
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
  const withoutSecrets = { restore: restoreOf(restore), database: createDatabaseOf(deps)(database) }
  const shown = { ...withoutSecrets, database: { ...withoutSecrets.database, password } }
  return { status: 202, body: shown, withoutSecrets }
}

export const restoreOf = (row: RestoreRow) => ({
  id: row.id,
  backup_id: row.backup_id,
  database_id: row.database_id,
  to: row.recover_to && isoTime(row.recover_to),
  status: row.status,
  bytes_done: row.bytes_done,
  bytes_total: row.bytes_total,
  failure: row.failure,
  created_at: isoTime(row.created_at),
  finished_at: row.finished_at && isoTime(row.finished_at),
})
