import Type from 'typebox'
import { moveBackup } from '../../domain/backup.ts'
import { Fault, notFound } from '../../kernel/faults.ts'
import { type DatabaseId, isId, newId } from '../../kernel/ids.ts'
import { isoTime } from '../../kernel/iso-time.ts'
import { recordAudit } from '../../store/audit.ts'
import { type Database, isUniqueViolation } from '../../store/database.ts'
import {
  type BackupRow,
  findBackup,
  insertBackup,
  listBackups,
  lockBackup,
  oneBackupAtATime,
  setBackupStatus,
} from '../../store/platform/backups.ts'
import { lockDatabase } from '../../store/platform/databases.ts'
import { restoresReading } from '../../store/platform/restores.ts'
import { chosen } from '../basis.ts'
import { listById } from '../lists.ts'
import { type Call, conflict, type Route, route } from '../route.ts'
import { backupQuery, backupRecord } from './backup-schemas.ts'
import type { Enqueue } from './enqueue.ts'

const organization = '/platform/v1/organizations/:orgId'
const path = `${organization}/backups`

export function backupRoutes(deps: { db: Database; enqueue: Enqueue }): Route[] {
  type OfDatabase = Call<unknown, unknown, { databaseId: DatabaseId }>
  async function create({ orgId, userId, actor, params: { databaseId } }: OfDatabase): Promise<BackupRow> {
    return deps.db.begin(async (tx) => {
      const source = await lockDatabase(tx, orgId, databaseId)
      if (source === null || source.status === 'deleted') throw notFound(`${databaseId} is not in ${orgId}`)
      if (source.status !== 'available' || source.node === null) {
        throw new Fault('conflict', {
          public: `The database is ${source.status}; only one that is available can be backed up.`,
        })
      }
      const { node } = source
      const id = newId('bak')
      const asked = { id, databaseId, node, origin: 'requested' as const, createdBy: userId }
      const row = await insertBackup(tx, orgId, asked)
      const details = { database_id: databaseId }
      await recordAudit(tx, { orgId, action: 'backup.created', actor, targetId: id, details })
      await deps.enqueue(tx, { kind: 'backup.take', orgId, backupId: id }, { node })
      return row
    })
  }

  return [
    route({
      method: 'POST',
      path: `${organization}/databases/:databaseId/backups`,
      needs: 'backups:create',
      audit: 'backup.created',
      basis: chosen(56),
      summary: 'Back up a database',
      description:
        'Begins a physical backup while clients go on writing. `backup.completed` follows once the archive was read back and verified, `backup.failed` when there will be none. One at a time per database.',
      faults: [
        'not_found',
        conflict(57, 'while a backup of the database is being taken'),
        conflict(53, 'while the database is not `available`'),
      ],
      success: { status: 202, description: 'The backup, on its way.', schema: backupRecord },
      async handler(call) {
        try {
          return { status: 202, body: backupOf(await create(call)) }
        } catch (error) {
          if (!isUniqueViolation(error, oneBackupAtATime)) throw error
          throw new Fault('conflict', { public: 'A backup of this database is being taken already.' })
        }
      },
    }),
    route({
      method: 'GET',
      path,
      needs: 'backups:read',
      audit: null,
      basis: chosen(56),
      summary: 'List backups',
      description: 'The backups of the organization, newest first; `?database_id=` for those of one database.',
      query: backupQuery,
      faults: ['not_found'],
      success: { status: 200, description: 'The backups.', schema: Type.Array(backupRecord) },
      async handler({ orgId, query }) {
        const wanted = query.database_id ?? null
        const filter = { databaseId: wanted !== null && isId('db', wanted) ? wanted : null }
        return listById('bak', backupOf, (request) => listBackups(deps.db, orgId, filter, request))
      },
    }),
    route({
      method: 'GET',
      path: `${path}/:backupId`,
      needs: 'backups:read',
      audit: null,
      basis: chosen(56),
      summary: 'Read a backup',
      description: 'How far it is, or how it ended.',
      faults: ['not_found'],
      success: { status: 200, description: 'The backup.', schema: backupRecord },
      async handler({ orgId, params: { backupId: id } }) {
        const row = await findBackup(deps.db, orgId, id)
        if (row === null) throw notFound(`${id} is not in ${orgId}`)
        return { status: 200, body: backupOf(row) }
      },
    }),
    route({
      method: 'DELETE',
      path: `${path}/:backupId`,
      needs: 'backups:delete',
      audit: 'backup.deleted',
      basis: chosen(60),
      summary: 'Delete a backup',
      description: 'Removes the archive. Not while the backup is being taken, and not while a restore reads it.',
      faults: ['not_found', conflict(60, 'while the backup is being taken or restored from')],
      success: { status: 202, description: 'The backup, on its way out.', schema: backupRecord },
      async handler({ orgId, actor, params: { backupId: id } }) {
        const row = await deps.db.begin(async (tx) => {
          const backup = await lockBackup(tx, orgId, id)
          if (backup === null || backup.status === 'deleted') throw notFound(`${id} is not in ${orgId}`)
          if (backup.status === 'deleting') return backup
          const next = moveBackup(backup.status, 'remove')
          if (next === null) {
            throw new Fault('conflict', { public: 'The backup is being taken; wait for its end.' })
          }
          if ((await restoresReading(tx, orgId, id)) > 0) {
            throw new Fault('conflict', { public: 'A restore is reading this backup; wait for its end.' })
          }
          await setBackupStatus(tx, orgId, id, next)
          await recordAudit(tx, { orgId, action: 'backup.deleted', actor, targetId: id })
          await deps.enqueue(tx, { kind: 'backup.remove', orgId, backupId: id }, { node: backup.node })
          return { ...backup, status: next }
        })
        return { status: 202, body: backupOf(row) }
      },
    }),
  ]
}

const backupOf = (row: BackupRow) => ({
  id: row.id,
  database_id: row.database_id,
  status: row.status,
  origin: row.origin,
  bytes_done: row.bytes_done,
  bytes_total: row.bytes_total,
  size_bytes: row.size_bytes,
  sha256: row.sha256,
  failure: row.failure,
  created_at: isoTime(row.created_at),
  finished_at: row.finished_at && isoTime(row.finished_at),
})
