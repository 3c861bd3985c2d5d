import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { type Database, isUnavailable } from '../../db/database.ts'
import { operator } from '../../domain/audit.ts'
import { Fault } from '../../kernel/faults.ts'
import { expiredBackups } from '../../store/platform/backups.ts'
import { databasesDueForBackup } from '../../store/platform/databases.ts'
import { beginBackup, removeBackup } from '../backups.ts'
import type { JobQueue } from '../jobs/queue.ts'

type Deps = { db: Database; queue: JobQueue; node: string }

const passEveryMs = 60_000
const origin = 'scheduled' as const

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
    // Deleted, begun or read from by somebody since we looked: there is nothing left to do.
    if (error instanceof Fault) return
    // None could be begun or removed now.
    if (isUnavailable(error)) throw error
    failed.push(error)
  }
  for (const { org_id: orgId, id: databaseId } of await databasesDueForBackup(deps.db, deps.node, everyHours)) {
    const asked = { orgId, databaseId, origin, userId: null, actor: operator, details: { origin } }
    await beginBackup(deps, asked).catch(remember)
  }
  for (const { org_id: orgId, id: backupId } of await expiredBackups(deps.db, deps.node, keep)) {
    const asked = { orgId, backupId, actor: operator, details: { origin, why: 'retention' } }
    await removeBackup(deps, asked).catch(remember)
  }
  if (failed.length > 0) throw new AggregateError(failed, `${failed.length} backups could not be begun or removed`)
}
