import Type from 'typebox'
import { createDatabaseOf } from '../databases/routes.ts'
import { type CreationDeps, newDatabaseSecret } from '../databases/rules.ts'
import type { Database } from '../db/database.ts'
import type { HoldOrganization } from '../db/publishing-transaction.ts'
import { chosen } from '../http/basis.ts'
import { listById, onlyPageQuery } from '../http/lists.ts'
import { type Created, type Route, route } from '../http/route.ts'
import { invalid, notFound } from '../lib/faults.ts'
import { isoTime, parseTimestamp, timestampDetail } from '../lib/time.ts'
import { type BegunRestore, restoreBackup, restoreToTime } from './rules.ts'
import { createdRestore, newRestore, newRestoreToTime, restoreRecord } from './schemas.ts'
import { findRestore, listRestores, type RestoreRow } from './sql.ts'

const organization = '/platform/v1/organizations/:orgId'

export function restoreRoutes(
  deps: CreationDeps & { db: Database; holdOrganization: HoldOrganization; hasTls: boolean },
): Route[] {
  const databaseOf = createDatabaseOf(deps)
  const created = (begun: BegunRestore, password: string): Created => {
    const withoutSecrets = { restore: restoreOf(begun.restore), database: databaseOf(begun.database) }
    const body = { ...withoutSecrets, database: { ...withoutSecrets.database, password } }
    return { status: 202, body, withoutSecrets }
  }
  return [
    route({
      method: 'POST',
      path: `${organization}/databases/:databaseId/restore`,
      needs: 'backups:restore',
      audit: 'restore.created',
      basis: chosen(141),
      tag: 'Restores',
      summary: 'Restore a database to a time',
      description:
        'Begins to make a new database that has exactly what was committed in this one by that time, with a password of its own; this one is not touched. `restore.completed` follows when the new database accepts connections. If it never will, its `database.failed` says so.',
      body: newRestoreToTime,
      faults: ['limit.reached', 'restore.outside_window'],
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
      async handler({ orgId, userId, actor, params: { databaseId }, body: { name, to }, once }) {
        const { password, passwordVerifier } = await newDatabaseSecret()
        const request = { orgId, userId, actor, name, passwordVerifier, databaseId, to }
        return deps.holdOrganization(orgId, (tx) =>
          once(tx, async () => created(await restoreToTime(tx, deps, request), password)),
        )
      },
    }),
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
      faults: ['limit.reached', 'backup.not_completed'],
      success: {
        status: 202,
        description: 'The restore and the new database. Keep `database.password`.',
        schema: createdRestore,
      },
      async handler({ orgId, userId, actor, params: { backupId }, body: { name }, once }) {
        const { password, passwordVerifier } = await newDatabaseSecret()
        const request = { orgId, userId, actor, name, passwordVerifier, backupId }
        return deps.holdOrganization(orgId, (tx) =>
          once(tx, async () => created(await restoreBackup(tx, deps, request), password)),
        )
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
  to: row.recover_to && isoTime(row.recover_to),
  status: row.status,
  bytes_done: row.bytes_done,
  bytes_total: row.bytes_total,
  failure: row.failure,
  created_at: isoTime(row.created_at),
  finished_at: row.finished_at && isoTime(row.finished_at),
})
