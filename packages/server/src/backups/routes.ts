import Type, { type Static } from 'typebox'
import { recordAudit } from '../access/audit.ts'
import { findBackupSchedule, setBackupSchedule } from '../databases/sql.ts'
import type { Database, Transact } from '../db/database.ts'
import { choice, chosen } from '../http/basis.ts'
import { listById } from '../http/lists.ts'
import { type Route, route } from '../http/route.ts'
import { nullable } from '../http/schemas.ts'
import type { JobQueue } from '../jobs/queue.ts'
import { notFound } from '../lib/faults.ts'
import { isId } from '../lib/ids.ts'
import { isoTime } from '../lib/time.ts'
import { isListed } from './backup.ts'
import { beginBackupWithin, cancelBackup, checkArchiveQuota, removeBackup } from './rules.ts'
import { backupQuery, backupRecord } from './schemas.ts'
import { type BackupRow, findBackup, listBackups } from './sql.ts'

const organization = '/platform/v1/organizations/:orgId'
const path = `${organization}/backups`

export function backupRoutes(deps: {
  db: Database
  queue: Pick<JobQueue, 'enqueue'>
  transact: Transact
  archivesPerOrgMax: number
}): Route[] {
  return [
    route({
      method: 'POST',
      path: `${organization}/databases/:databaseId/backups`,
      needs: 'backups:create',
      audit: 'backup.created',
      basis: chosen(56),
      tag: 'Backups',
      summary: 'Back up a database',
      description:
        'Begins a physical backup while clients go on writing. `backup.completed` follows once the archive was read back and verified, `backup.failed` when there will be none. One at a time per database.',
      choices: [
        choice(165, 'The backups and write-ahead logs of an organization share a limit, which the operator sets.'),
      ],
      faults: ['limit.reached', 'backup.already_running', 'database.not_available'],
      success: { status: 202, description: 'The backup, running.', schema: backupRecord },
      async handler({ orgId, userId, actor, params: { databaseId }, once }) {
        const request = { orgId, userId, actor, databaseId, origin: 'requested' as const }
        return beginBackupWithin(deps, request, (tx, create) =>
          once(tx, async () => {
            const row = await create()
            await checkArchiveQuota(tx, orgId, deps.archivesPerOrgMax)
            return { status: 202, body: backupOf(row) }
          }),
        )
      },
    }),
    route({
      method: 'GET',
      path,
      needs: 'backups:read',
      audit: null,
      basis: chosen(56),
      tag: 'Backups',
      summary: 'List backups',
      description: 'The backups of the organization, newest first; `?database_id=` for those of one database.',
      query: backupQuery,
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
      tag: 'Backups',
      summary: 'Read a backup',
      description: 'How far it is, or how it ended.',
      success: { status: 200, description: 'The backup.', schema: backupRecord },
      async handler({ orgId, params: { backupId: id } }) {
        const row = await findBackup(deps.db, orgId, id)
        if (row === null || !isListed(row)) throw notFound(`${id} is not in ${orgId}`)
        return { status: 200, body: backupOf(row) }
      },
    }),
    route({
      method: 'POST',
      path: `${path}/:backupId/cancel`,
      needs: 'backups:create',
      audit: 'backup.cancelled',
      basis: chosen(158),
      tag: 'Backups',
      summary: 'Cancel a backup',
      description:
        'Ends a backup that is being taken. It is `failed` in the answer, and `backup.failed` follows; the archive is removed.',
      faults: ['backup.not_running'],
      success: { status: 200, description: 'The backup, failed.', schema: backupRecord },
      async handler({ orgId, actor, params: { backupId } }) {
        const row = await cancelBackup(deps.transact, { orgId, actor, backupId })
        return { status: 200, body: backupOf(row) }
      },
    }),
    route({
      method: 'DELETE',
      path: `${path}/:backupId`,
      needs: 'backups:delete',
      audit: 'backup.deleted',
      basis: chosen(60),
      tag: 'Backups',
      summary: 'Delete a backup',
      description: 'Removes the archive. Not while the backup is being taken, and not while a restore reads it.',
      faults: ['backup.still_running', 'backup.being_restored'],
      success: { status: 202, description: 'The backup, being deleted.', schema: backupRecord },
      async handler({ orgId, actor, params: { backupId } }) {
        const row = await removeBackup(deps, { orgId, actor, backupId })
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

const here = chosen(105)
const schedulePath = '/platform/v1/organizations/:orgId/databases/:databaseId/backup-schedule'

const schedule = Type.Object(
  {
    every_hours: nullable(
      Type.Integer({
        minimum: 1,
        maximum: 8_760,
        examples: [24],
        description: "Hours between backups; null: the operator's setting.",
      }),
    ),
    keep: nullable(
      Type.Integer({
        minimum: 1,
        maximum: 1_000,
        examples: [7],
        description: "How many scheduled backups are kept; null: the operator's setting.",
      }),
    ),
  },
  { $id: 'DatabaseBackupSchedule', additionalProperties: false, ...here },
)

/** When a database is backed up, if not by the operator's setting. */
export function backupScheduleRoutes({ db }: { db: Database }): Route[] {
  return [
    route({
      method: 'GET',
      path: schedulePath,
      needs: 'backups:read',
      audit: null,
      basis: here,
      tag: 'Backups',
      summary: 'Read the backup schedule of a database',
      description: 'Null where the database has no setting of its own.',
      success: { status: 200, description: 'The schedule.', schema: schedule },
      async handler({ orgId, params: { databaseId: id } }) {
        const row = await findBackupSchedule(db, orgId, id)
        if (row === null) throw notFound(`${id} is not in ${orgId}`)
        return { status: 200, body: { every_hours: row.backup_every_hours, keep: row.backups_kept } }
      },
    }),
    route({
      method: 'PUT',
      path: schedulePath,
      needs: 'backups:create',
      audit: 'database.schedule_changed',
      basis: here,
      tag: 'Backups',
      summary: 'Set the backup schedule of a database',
      description: 'It counts from the next minute on. Requested backups are not touched by it.',
      body: schedule,
      success: { status: 200, description: 'The schedule.', schema: schedule },
      async handler({ orgId, params: { databaseId: id }, actor, body }) {
        const { every_hours, keep } = body as Static<typeof schedule>
        await db.begin(async (tx) => {
          const row = { backup_every_hours: every_hours, backups_kept: keep }
          if (!(await setBackupSchedule(tx, orgId, id, row))) throw notFound(`${id} is not in ${orgId}`)
          const details = { every_hours, keep }
          await recordAudit(tx, { orgId, action: 'database.schedule_changed', actor, targetId: id, details })
        })
        return { status: 200, body: { every_hours, keep } }
      },
    }),
  ]
}
