import type { Transaction } from '../../db/database.ts'
import { Fault, invalid, notFound } from '../../kernel/faults.ts'
import type { DatabaseId, OrgId } from '../../kernel/ids.ts'
import { isoTime } from '../../kernel/iso-time.ts'
import type { HoldOrganization } from '../../store/hold-organization.ts'
import { type BackupRow, lockBackup } from '../../store/platform/backups.ts'
import { type DatabaseRow, findDatabase } from '../../store/platform/databases.ts'
import { findBaseBackup, findWalArchive, holdWalArchive } from '../../store/platform/wal-archives.ts'
import { chosen } from '../basis.ts'
import { momentDetail, parseMoment } from '../moments.ts'
import { type Created, type Route, route } from '../route.ts'
import { createdRestore, newRestoreToTime } from './backup-schemas.ts'
import { beginRestore, newPassword, type RestoreDeps } from './begin-restore.ts'

export const restoreToTimeRoute = (deps: RestoreDeps & { holdOrganization: HoldOrganization }): Route =>
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
      const to = parseMoment(body.to)
      if (to === null) throw invalid([{ pointer: '/to', detail: momentDetail }])
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
      ? 'This database cannot be restored to a time yet: its log is stored from its first backup on, which has to end first. Try again in a minute.'
      : 'This database cannot be restored to a time: none of its log is stored.'
  }
  const range = `It can be restored to times from ${isoTime(from)} to ${isoTime(until)}.`
  if (to.getTime() > Date.now()) return `\`to\` lies in the future. ${range}`
  if (to > until) return `The log of that time is not stored yet. ${range} Try again in a minute.`
  return `\`to\` is before the first time that is kept. ${range}`
}
