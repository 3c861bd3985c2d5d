import Type from 'typebox'
import type { Database, Transaction } from '../../db/database.ts'
import { mintDatabasePassword } from '../../domain/database.ts'
import { scramVerifier } from '../../domain/scram.ts'
import { Fault, notFound } from '../../kernel/faults.ts'
import { newId } from '../../kernel/ids.ts'
import { isoTime } from '../../kernel/iso-time.ts'
import { recordAudit } from '../../store/audit.ts'
import type { HoldOrganization } from '../../store/hold-organization.ts'
import { lockBackup } from '../../store/platform/backups.ts'
import { insertDatabase } from '../../store/platform/databases.ts'
import { findRestore, insertRestore, listRestores, type RestoreRow } from '../../store/platform/restores.ts'
import { chosen } from '../basis.ts'
import { listById, onlyPageQuery } from '../lists.ts'
import { type Created, conflict, type Route, route } from '../route.ts'
import { createdRestore, newRestore, restoreRecord } from './backup-schemas.ts'
import { createDatabaseOf, type Enqueue, tooManyDatabases } from './databases.ts'

const organization = '/platform/v1/organizations/:orgId'

export function restoreRoutes(deps: {
  db: Database
  holdOrganization: HoldOrganization
  enqueue: Enqueue
  databasesPerOrgMax: number
  hasTls: boolean
}): Route[] {
  const databaseOf = createDatabaseOf(deps)
  return [
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
      faults: ['limit.reached', 'not_found', conflict(59, 'unless the backup is `completed`')],
      success: {
        status: 202,
        description: 'The restore and the new database. Keep `database.password`.',
        schema: createdRestore,
      },
      async handler({ orgId, userId, actor, params: { backupId: from }, body, once }) {
        const password = mintDatabasePassword()
        const passwordVerifier = await scramVerifier(password)
        const create = async (tx: Transaction): Promise<Created> => {
          const backup = await lockBackup(tx, orgId, from)
          if (backup === null || backup.status === 'deleted') throw notFound(`${from} is not in ${orgId}`)
          if (backup.status !== 'completed') {
            throw new Fault('conflict', {
              public: `The backup is ${backup.status}; only a completed one can be restored.`,
            })
          }
          const { node } = backup
          const asked = { id: newId('db'), name: body.name, passwordVerifier, node, createdBy: userId }
          const database = await insertDatabase(tx, orgId, asked, deps.databasesPerOrgMax)
          if (database === null) throw tooManyDatabases(deps.databasesPerOrgMax)
          const id = newId('rst')
          const restore = await insertRestore(tx, orgId, {
            id,
            backupId: from,
            databaseId: database.id,
            bytesTotal: backup.bytes_total,
            createdBy: userId,
          })
          const details = { backup_id: from, database_id: database.id, name: body.name }
          await recordAudit(tx, { orgId, action: 'restore.created', actor, targetId: id, details })
          // To the node that has the archive.
          await deps.enqueue(tx, { kind: 'restore.run', orgId, restoreId: id, node })
          const withoutSecrets = { restore: restoreOf(restore), database: databaseOf(database) }
          const shown = { ...withoutSecrets, database: { ...withoutSecrets.database, password } }
          return { status: 202, body: shown, withoutSecrets }
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

const restoreOf = (row: RestoreRow) => ({
  id: row.id,
  backup_id: row.backup_id,
  database_id: row.database_id,
  status: row.status,
  bytes_done: row.bytes_done,
  bytes_total: row.bytes_total,
  failure: row.failure,
  created_at: isoTime(row.created_at),
  finished_at: row.finished_at && isoTime(row.finished_at),
})
