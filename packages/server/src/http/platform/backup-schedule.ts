import Type, { type Static } from 'typebox'
import type { Database } from '../../db/database.ts'
import { notFound } from '../../kernel/faults.ts'
import { recordAudit } from '../../store/audit.ts'
import { findBackupSchedule, setBackupSchedule } from '../../store/platform/databases.ts'
import { chosen } from '../basis.ts'
import { type Route, route } from '../route.ts'
import { nullable } from '../schemas.ts'

const here = chosen(105)
const path = '/platform/v1/organizations/:orgId/databases/:databaseId/backup-schedule'

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
      path,
      needs: 'backups:read',
      audit: null,
      basis: here,
      tag: 'Backups',
      summary: 'Read the backup schedule of a database',
      description: 'Null where the database has no setting of its own.',
      faults: ['not_found'],
      success: { status: 200, description: 'The schedule.', schema: schedule },
      async handler({ orgId, params: { databaseId: id } }) {
        const row = await findBackupSchedule(db, orgId, id)
        if (row === null) throw notFound(`${id} is not in ${orgId}`)
        return { status: 200, body: { every_hours: row.backup_every_hours, keep: row.backups_kept } }
      },
    }),
    route({
      method: 'PUT',
      path,
      needs: 'backups:create',
      audit: 'database.schedule_changed',
      basis: here,
      tag: 'Backups',
      summary: 'Set the backup schedule of a database',
      description: 'It counts from the next minute on. Requested backups are not touched by it.',
      body: schedule,
      faults: ['not_found'],
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
