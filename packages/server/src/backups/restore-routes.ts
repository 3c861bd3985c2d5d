import Type from 'typebox'
import { type Actor, recordAudit } from '../access/audit.ts'
import { mintDatabasePassword, scramVerifier } from '../databases/database.ts'
import { createDatabaseOf, type Enqueue, tooManyDatabases } from '../databases/routes.ts'
import { type DatabaseRow, findDatabase, insertDatabase } from '../databases/sql.ts'
import { findBaseBackup, findWalArchive, holdWalArchive } from '../databases/wal-sql.ts'
import type { Database, Transaction } from '../db/database.ts'
import type { HoldOrganization } from '../db/publishing-transaction.ts'
import { chosen } from '../http/basis.ts'
import { listById, onlyPageQuery } from '../http/lists.ts'
import { type Created, type Route, route } from '../http/route.ts'
import { Fault, invalid, notFound } from '../lib/faults.ts'
import { type DatabaseId, newId, type OrgId, type UserId } from '../lib/ids.ts'
import { isoTime, parseTimestamp, timestampDetail } from '../lib/time.ts'
import { isListed } from './backup.ts'
import { createdRestore, newRestore, newRestoreToTime, restoreRecord } from './schemas.ts'
import { type BackupRow, findRestore, insertRestore, listRestores, lockBackup, type RestoreRow } from './sql.ts'

const organization = '/platform/v1/organizations/:orgId'

export function restoreRoutes(deps: {
  db: Database
  holdOrganization: HoldOrganization
  enqueue: Enqueue
  databasesPerOrgMax: number
  hasTls: boolean
}): Route[] {
  return [
    restoreToTimeRoute(deps),
    route({
      method: 'POST',
      path: `${organization}/backups/:backupId/restore`,
      needs: 'backups:restore',
      audit: 'restore.created',
      basis: chosen(59),
      tag: 'Restores',
      summary: 'Restore a backup',
      description:
        'Begins to make a new database from the backup, with a password of its own; the source is not touched. `restore.completed` follows when the new database accepts connections. If it never will, its `database.failed` says so.',
      body: newRestore,
      faults: ['limit.reached', 'not_found', 'backup.not_completed'],
      success: {
        status: 202,
        description: 'The restore and the new database. Keep `database.password`.',
        schema: createdRestore,
      },
      async handler({ orgId, userId, actor, params: { backupId: from }, body, once }) {
        const secret = await newPassword()
        const create = async (tx: Transaction): Promise<Created> => {
          const backup = await lockBackup(tx, orgId, from)
          if (backup === null || !isListed(backup) || backup.status === 'deleted')
            throw notFound(`${from} is not in ${orgId}`)
          if (backup.status !== 'completed') {
            throw new Fault('backup.not_completed', {
              public: `The backup is ${backup.status}; only a completed one can be restored.`,
            })
          }
          return beginRestore(tx, deps, { orgId, userId, actor, name: body.name, backup, to: null, secret })
        }
        return deps.holdOrganization(orgId, (tx) => once(tx, () => create(tx)))
      },
    }),
    route({
      method: 'GET',
      path: `${organization}/restores`,
      needs: 'backups:read',
      audit: null,
      basis: chosen(59),
      tag: 'Restores',
      summary: 'List restores',
      description: 'The restores of the organization, newest first.',
      query: onlyPageQuery,
      faults: ['not_found'],
      success: { status: 200, description: 'The restores.', schema: Type.Array(restoreRecord) },
      async handler({ orgId }) {
        return listById('rst', restoreOf, (request) => listRestores(deps.db, orgId, request))
      },
    }),
    route({
      method: 'GET',
      path: `${organization}/restores/:restoreId`,
      needs: 'backups:read',
      audit: null,
      basis: chosen(59),
      tag: 'Restores',
      summary: 'Read a restore',
      description: 'How far it is, or how it ended.',
      faults: ['not_found'],
      success: { status: 200, description: 'The restore.', schema: restoreRecord },
      async handler({ orgId, params: { restoreId: id } }) {
        const row = await findRestore(deps.db, orgId, id)
        if (row === null) throw notFound(`${id} is not in ${orgId}`)
        return { status: 200, body: restoreOf(row) }
      },
    }),
  ]
}

const restoreToTimeRoute = (deps: RestoreDeps & { holdOrganization: HoldOrganization }): Route =>
  route({
    method: 'POST',
    path: '/platform/v1/organizations/:orgId/databases/:databaseId/restore',
    needs: 'backups:restore',
    audit: 'restore.created',
    basis: chosen(141),
    tag: 'Restores',
    summary: 'Restore a database to a time',
    description:
      'Begins to make a new database that has exactly what was committed in this one by that time, with a password of its own; this one is not touched. `restore.completed` follows when the new database accepts connections. If it never will, its `database.failed` says so.',
    body: newRestoreToTime,
    faults: ['limit.reached', 'not_found', 'restore.outside_window'],
    success: {
      status: 202,
      description: 'The restore and the new database. Keep `database.password`.',
      schema: createdRestore,
    },
    async decode(body) {
      const to = parseTimestamp(body.to)
      if (to === null) throw invalid([{ pointer: '/to', detail: timestampDetail }])
      return { name: body.name, to }
    },
    async handler({ orgId, userId, actor, params: { databaseId: id }, body: { name, to }, once }) {
      const secret = await newPassword()
      const create = async (tx: Transaction): Promise<Created> => {
        const backup = await baseBackupFor(tx, orgId, id, to)
        return beginRestore(tx, deps, { orgId, userId, actor, name, backup, to, secret })
      }
      return deps.holdOrganization(orgId, (tx) => once(tx, () => create(tx)))
    },
  })

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

type Secret = { password: string; passwordVerifier: string }

type RestoreDeps = { enqueue: Enqueue; databasesPerOrgMax: number; hasTls: boolean }

/** Before the transaction: the verifier takes thousands of hashes. */
async function newPassword(): Promise<Secret> {
  const password = mintDatabasePassword()
  return { password, passwordVerifier: await scramVerifier(password) }
}

/** Creates the new database and its restore, from a backup that the caller has locked. `to`: replays the log up to then. */
async function beginRestore(
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

const restoreOf = (row: RestoreRow) => ({
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
