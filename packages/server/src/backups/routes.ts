import Type, { type Static } from 'typebox'
import { restrictionsOf } from '../access/access.ts'
import { recordAudit } from '../access/audit.ts'
import { keyLacks, otherDatabases } from '../access/authenticate.ts'
import { createDatabaseOf } from '../databases/routes.ts'
import { type CreationDeps, newDatabaseSecret } from '../databases/rules.ts'
import { findBackupSchedule, lockDatabase, type ScheduleRow, setBackupSchedule } from '../databases/sql.ts'
import type { Database, HoldOrganization, Transact, Transaction } from '../db/database.ts'
import { mayAlso } from '../http/access-check.ts'
import { choice, chosen } from '../http/basis.ts'
import { listById, onlyPageQuery } from '../http/lists.ts'
import { type Call, type Route, route } from '../http/route.ts'
import type { JobQueue } from '../jobs/queue.ts'
import { invalid, notFound } from '../lib/faults.ts'
import { isId } from '../lib/ids.ts'
import { isoTime, parseTimestamp, timestampDetail } from '../lib/time.ts'
import {
  type BegunRestore,
  beginBackupWithin,
  cancelBackup,
  checkArchiveQuota,
  readBackup,
  removeBackup,
  restoreBackup,
  restoreToTime,
} from './rules.ts'
import {
  backupOf,
  backupQuery,
  backupRecord,
  backupSchedule,
  backupScheduleInForce,
  createdRestore,
  newRestore,
  newRestoreToTime,
  restoreOf,
  restoreRecord,
} from './schemas.ts'
import { findRestore, isRestoreOf, listBackups, listRestores } from './sql.ts'
import type { BackupSchedule } from './upkeep.ts'

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
      isForDatabaseKeys: true,
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
      isForDatabaseKeys: true,
      basis: chosen(56),
      tag: 'Backups',
      summary: 'List backups',
      description: 'The backups of the organization, newest first; `?database_id=` for those of one database.',
      query: backupQuery,
      success: { status: 200, description: 'The backups.', schema: Type.Array(backupRecord) },
      async handler({ orgId, query, databases }) {
        const wanted = query.database_id ?? null
        const filter = { databaseId: wanted !== null && isId('db', wanted) ? wanted : null, databases }
        return listById('bak', backupOf, (request) => listBackups(deps.db, orgId, filter, request))
      },
    }),
    route({
      method: 'GET',
      path: `${path}/:backupId`,
      needs: 'backups:read',
      audit: null,
      isForDatabaseKeys: true,
      basis: chosen(56),
      tag: 'Backups',
      summary: 'Read a backup',
      description: 'How far it is, or how it ended.',
      success: { status: 200, description: 'The backup.', schema: backupRecord },
      async handler({ orgId, databases, params: { backupId } }) {
        return { status: 200, body: backupOf(await readBackup(deps.db, { orgId, backupId, databases })) }
      },
    }),
    route({
      method: 'POST',
      path: `${path}/:backupId/cancel`,
      needs: 'backups:create',
      audit: 'backup.cancelled',
      isForDatabaseKeys: true,
      basis: chosen(158),
      tag: 'Backups',
      summary: 'Cancel a backup',
      description:
        'Ends a backup that is being taken. It is `failed` in the answer, and `backup.failed` follows; the archive is removed.',
      faults: ['backup.not_running'],
      success: { status: 200, description: 'The backup, failed.', schema: backupRecord },
      async handler({ orgId, actor, databases, params: { backupId } }) {
        if (databases !== null) await readBackup(deps.db, { orgId, backupId, databases })
        const row = await cancelBackup(deps.transact, { orgId, actor, backupId })
        return { status: 200, body: backupOf(row) }
      },
    }),
    route({
      method: 'DELETE',
      path: `${path}/:backupId`,
      needs: 'backups:delete',
      audit: 'backup.deleted',
      isForDatabaseKeys: true,
      basis: chosen(60),
      tag: 'Backups',
      summary: 'Delete a backup',
      description: 'Removes the archive. Not while the backup is being taken, and not while a restore reads it.',
      faults: ['backup.still_running', 'backup.being_restored'],
      success: { status: 202, description: 'The backup, being deleted.', schema: backupRecord },
      async handler({ orgId, actor, databases, params: { backupId } }) {
        if (databases !== null) await readBackup(deps.db, { orgId, backupId, databases })
        const row = await removeBackup(deps, { orgId, actor, backupId })
        return { status: 202, body: backupOf(row) }
      },
    }),
  ]
}

const hourMs = 3_600_000
const schedulePath = `${organization}/databases/:databaseId/backup-schedule` as const

/** When a database is backed up. `installed` is the operator's setting. */
export function backupScheduleRoutes({ db, installed }: { db: Database; installed: BackupSchedule }): Route[] {
  return [
    route({
      method: 'GET',
      path: schedulePath,
      needs: 'backups:read',
      audit: null,
      isForDatabaseKeys: true,
      basis: chosen(105),
      tag: 'Backups',
      summary: 'Read the backup schedule of a database',
      description: 'Null where the database has no setting of its own; `in_force` has what then counts.',
      success: { status: 200, description: 'The schedule.', schema: backupScheduleInForce },
      async handler({ orgId, params: { databaseId: id } }) {
        const row = await findBackupSchedule(db, orgId, id)
        if (row === null) throw notFound(`${id} is not in ${orgId}`)
        const every_hours = row.backup_every_hours ?? installed.everyHours
        const next = every_hours === null || row.last_at === null ? null : row.last_at.getTime() + every_hours * hourMs
        return {
          status: 200,
          body: {
            every_hours: row.backup_every_hours,
            keep: row.backups_kept,
            in_force: {
              every_hours,
              keep: row.backups_kept ?? installed.keep,
              next_at: next === null ? null : isoTime(new Date(next)),
            },
          },
        }
      },
    }),
    route({
      method: 'PUT',
      path: schedulePath,
      needs: 'backups:create',
      audit: 'database.schedule_changed',
      isForDatabaseKeys: true,
      basis: chosen(105),
      tag: 'Backups',
      summary: 'Set the backup schedule of a database',
      description:
        'It counts from the next minute on. Requested backups are not touched by it. A schedule that keeps fewer backups, or for a shorter time, also takes `backups:delete` once there are scheduled backups.',
      body: backupSchedule,
      faults: ['auth.key_restricted'],
      success: { status: 200, description: 'The schedule.', schema: backupSchedule },
      async handler({ orgId, params: { databaseId: id }, actor, access, body }) {
        const { every_hours, keep } = body as Static<typeof backupSchedule>
        await db.begin(async (tx) => {
          const row = { backup_every_hours: every_hours, backups_kept: keep }
          await lockDatabase(tx, orgId, id)
          const before = await findBackupSchedule(tx, orgId, id)
          // Without scheduled backups nothing can be lost.
          if (before?.last_at && keepsLess(row, before, installed) && !mayAlso(access, 'backups:delete')) {
            throw keyLacks('backups:delete', restrictionsOf(access))
          }
          if (!(await setBackupSchedule(tx, orgId, id, row))) throw notFound(`${id} is not in ${orgId}`)
          const details = { every_hours, keep }
          await recordAudit(tx, { orgId, action: 'database.schedule_changed', actor, targetId: id, details })
        })
        return { status: 200, body: { every_hours, keep } }
      },
    }),
  ]
}

/** Fewer backups, or as many of a shorter time: the schedule then removes some that it would have kept. */
function keepsLess(next: ScheduleRow, before: ScheduleRow, installed: BackupSchedule): boolean {
  const kept = (row: ScheduleRow) => row.backups_kept ?? installed.keep
  const keptHours = (row: ScheduleRow) => kept(row) * (row.backup_every_hours ?? installed.everyHours ?? Infinity)
  return kept(next) < kept(before) || keptHours(next) < keptHours(before)
}

export function restoreRoutes(
  deps: CreationDeps & { db: Database; holdOrganization: HoldOrganization; hasTls: boolean },
): Route[] {
  const databaseOf = createDatabaseOf(deps)
  const restoring = {
    method: 'POST',
    audit: 'restore.created',
    tag: 'Restores',
    success: {
      status: 202,
      description: 'The restore and the new database. Keep `database.password`.',
      schema: createdRestore,
    },
  } as const
  const restore = async (
    { orgId, once }: Pick<Call, 'orgId' | 'once'>,
    begin: (tx: Transaction, passwordVerifier: string) => Promise<BegunRestore>,
  ) => {
    const { password, passwordVerifier } = await newDatabaseSecret()
    return deps.holdOrganization(orgId, (tx) =>
      once(tx, async () => {
        const begun = await begin(tx, passwordVerifier)
        const withoutSecrets = { restore: restoreOf(begun.restore), database: databaseOf(begun.database) }
        const body = { ...withoutSecrets, database: { ...withoutSecrets.database, password } }
        return { status: 202, body, withoutSecrets }
      }),
    )
  }
  return [
    route({
      ...restoring,
      path: `${organization}/databases/:databaseId/restore`,
      needs: 'backups:restore',
      basis: chosen(141),
      summary: 'Restore a database to a time',
      description:
        'Begins to make a new database that has exactly what was committed in this one by that time, with a password of its own; this one is not touched. `restore.completed` follows when the new database accepts connections. If it never will, its `database.failed` says so.',
      body: newRestoreToTime,
      faults: ['limit.reached', 'restore.outside_window'],
      async decode(body) {
        const to = parseTimestamp(body.to)
        if (to === null) throw invalid([{ pointer: '/to', detail: timestampDetail }])
        return { name: body.name, to }
      },
      handler({ orgId, userId, actor, params: { databaseId }, body: { name, to }, once }) {
        const request = { orgId, userId, actor, name, databaseId, to }
        return restore({ orgId, once }, (tx, passwordVerifier) =>
          restoreToTime(tx, deps, { ...request, passwordVerifier }),
        )
      },
    }),
    route({
      ...restoring,
      path: `${organization}/backups/:backupId/restore`,
      needs: 'backups:restore',
      basis: chosen(59),
      summary: 'Restore a backup',
      description:
        'Begins to make a new database from the backup, with a password of its own; the source is not touched. `restore.completed` follows when the new database accepts connections. If it never will, its `database.failed` says so.',
      body: newRestore,
      faults: ['limit.reached', 'backup.not_completed'],
      handler({ orgId, userId, actor, params: { backupId }, body: { name }, once }) {
        const request = { orgId, userId, actor, name, backupId }
        return restore({ orgId, once }, (tx, passwordVerifier) =>
          restoreBackup(tx, deps, { ...request, passwordVerifier }),
        )
      },
    }),
    route({
      method: 'GET',
      path: `${organization}/restores`,
      needs: 'backups:read',
      audit: null,
      isForDatabaseKeys: true,
      basis: chosen(59),
      tag: 'Restores',
      summary: 'List restores',
      description: 'The restores of the organization, newest first.',
      query: onlyPageQuery,
      success: { status: 200, description: 'The restores.', schema: Type.Array(restoreRecord) },
      async handler({ orgId, databases }) {
        return listById('rst', restoreOf, (request) => listRestores(deps.db, orgId, databases, request))
      },
    }),
    route({
      method: 'GET',
      path: `${organization}/restores/:restoreId`,
      needs: 'backups:read',
      audit: null,
      isForDatabaseKeys: true,
      basis: chosen(59),
      tag: 'Restores',
      summary: 'Read a restore',
      description: 'How far it is, or how it ended.',
      success: { status: 200, description: 'The restore.', schema: restoreRecord },
      async handler({ orgId, databases, params: { restoreId: id } }) {
        const row = await findRestore(deps.db, orgId, id)
        if (row === null) throw notFound(`${id} is not in ${orgId}`)
        if (databases !== null && !(await isRestoreOf(deps.db, orgId, id, databases))) throw otherDatabases()
        return { status: 200, body: restoreOf(row) }
      },
    }),
  ]
}
