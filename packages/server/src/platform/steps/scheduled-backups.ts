import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { operator } from '../../domain/audit.ts'
import { moveBackup } from '../../domain/backup.ts'
import { type BackupId, type DatabaseId, newId, type OrgId } from '../../kernel/ids.ts'
import { recordAudit } from '../../store/audit.ts'
import { type Database, isUnavailable, isUniqueViolation } from '../../store/database.ts'
import {
  expiredBackups,
  insertBackup,
  lockBackup,
  oneBackupAtATime,
  setBackupStatus,
} from '../../store/platform/backups.ts'
import { databasesDueForBackup, lockDatabase } from '../../store/platform/databases.ts'
import { restoresReading } from '../../store/platform/restores.ts'
import type { JobQueue } from '../jobs/queue.ts'

type Deps = { db: Database; queue: JobQueue; node: string }

const passEveryMs = 60_000

export type BackupSchedule = { everyHours: number; keep: number }

/**
 * Passes until it is told to stop, with a pause after each: one that takes longer than the pause must not be joined by a
 * second, which would make both slower.
 */
export async function keepBackupSchedule(
  deps: Deps & { signal: AbortSignal; log: Logger; pauseMs?: number },
  settings: BackupSchedule,
): Promise<void> {
  const { signal, log, pauseMs = passEveryMs } = deps
  while (!signal.aborted) {
    await runBackupSchedule(deps, settings).catch((err) => log.warn({ err }, 'backups.not_scheduled'))
    await sleep(pauseMs, undefined, { signal }).catch(() => {})
  }
}

/**
 * One pass over the databases of this node: begins the backups that are due and lets go of those beyond the number kept. What
 * fails keeps no other from its turn, and is told at the end.
 */
export async function runBackupSchedule(deps: Deps, { everyHours, keep }: BackupSchedule): Promise<void> {
  const failed: unknown[] = []
  const remember = (error: unknown) => {
    // None could be begun or removed now.
    if (isUnavailable(error)) throw error
    failed.push(error)
  }
  for (const { org_id, id } of await databasesDueForBackup(deps.db, deps.node, everyHours)) {
    await begin(deps, org_id, id).catch((error: unknown) => {
      // Somebody asked for one at this very moment.
      if (!isUniqueViolation(error, oneBackupAtATime)) remember(error)
    })
  }
  for (const { org_id, id } of await expiredBackups(deps.db, deps.node, keep))
    await expire(deps, org_id, id).catch(remember)
  if (failed.length > 0) throw new AggregateError(failed, `${failed.length} backups could not be begun or removed`)
}

async function begin({ db, queue, node }: Deps, orgId: OrgId, databaseId: DatabaseId): Promise<void> {
  await db.begin(async (tx) => {
    const database = await lockDatabase(tx, orgId, databaseId)
    if (database?.status !== 'available') return
    const id = newId('bak')
    await insertBackup(tx, orgId, { id, databaseId, node, origin: 'scheduled', createdBy: null })
    const details = { database_id: databaseId, origin: 'scheduled' }
    await recordAudit(tx, { orgId, action: 'backup.created', actor: operator, targetId: id, details })
    await queue.enqueue(tx, { kind: 'backup.take', orgId, backupId: id }, { node })
  })
}

async function expire({ db, queue, node }: Deps, orgId: OrgId, backupId: BackupId): Promise<void> {
  await db.begin(async (tx) => {
    const backup = await lockBackup(tx, orgId, backupId)
    const next = backup && moveBackup(backup.status, 'remove')
    if (next === null) return
    if ((await restoresReading(tx, orgId, backupId)) > 0) return
    await setBackupStatus(tx, orgId, backupId, next)
    const details = { origin: 'scheduled', why: 'retention' }
    await recordAudit(tx, { orgId, action: 'backup.deleted', actor: operator, targetId: backupId, details })
    await queue.enqueue(tx, { kind: 'backup.remove', orgId, backupId }, { node })
  })
}
