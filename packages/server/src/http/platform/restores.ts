import Type from 'typebox'
import type { Database, Transaction } from '../../db/database.ts'
import { isListed } from '../../domain/backup.ts'
import { Fault, notFound } from '../../kernel/faults.ts'
import type { HoldOrganization } from '../../store/hold-organization.ts'
import { lockBackup } from '../../store/platform/backups.ts'
import { findRestore, listRestores } from '../../store/platform/restores.ts'
import { chosen } from '../basis.ts'
import { listById, onlyPageQuery } from '../lists.ts'
import { type Created, type Route, route } from '../route.ts'
import { createdRestore, newRestore, restoreRecord } from './backup-schemas.ts'
import { beginRestore, newPassword, restoreOf } from './begin-restore.ts'
import type { Enqueue } from './databases.ts'
import { restoreToTimeRoute } from './restore-to-time.ts'

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
