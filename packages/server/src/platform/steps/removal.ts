import type { Database } from '../../db/database.ts'
import { moveBackup } from '../../domain/backup.ts'
import { databaseWasDeleted, moveDatabase } from '../../domain/database.ts'
import type { KeyedQueue } from '../../kernel/keyed-queue.ts'
import { findBackup, lockBackup, runningBackupsOf, setBackupStatus } from '../../store/platform/backups.ts'
import { lockDatabase, markDatabaseCleared } from '../../store/platform/databases.ts'
import { runningRestoreInto } from '../../store/platform/restores.ts'
import { type DatabaseDriver, StepFailure } from '../driver.ts'
import type { JobQueue } from '../jobs/queue.ts'
import type { Handlers } from '../jobs/worker.ts'
import { failBackup, failRestore } from './settle-failure.ts'
import { traceStep } from './trace-step.ts'

/** Removes a database or a backup. A job that runs for the database is aborted, and its outcome is failure. */
export function createRemoval(deps: {
  db: Database
  driver: DatabaseDriver
  node: string
  queue: Pick<JobQueue, 'enqueue'>
  databaseWork: KeyedQueue
}): Pick<Handlers, 'database.remove' | 'database.discard' | 'backup.remove'> {
  const never = async (_job: unknown, reason: string) => {
    throw new Error(`a removal never fails for good: ${reason}`)
  }

  return {
    'database.remove': {
      async run({ orgId, databaseId }, settle) {
        deps.databaseWork.abort(databaseId, new StepFailure(databaseWasDeleted, { permanent: true }))
        await deps.databaseWork.run(databaseId, async () => {
          await deps.driver.remove(databaseId)
          traceStep('remove.settling', databaseId)
          await settle(async (tx) => {
            const database = await lockDatabase(tx, orgId, databaseId)
            const next = database && moveDatabase(database.status, 'clear')
            if (next === null) return
            await markDatabaseCleared(tx, orgId, databaseId, next)
            const from = database!.moving_from
            if (from !== null && from !== deps.node)
              await deps.queue.enqueue(tx, { kind: 'database.discard', orgId, databaseId, node: from })
            const restoreId = await runningRestoreInto(tx, orgId, databaseId)
            if (restoreId !== null) await failRestore(tx, orgId, restoreId, databaseWasDeleted)
            for (const backupId of await runningBackupsOf(tx, orgId, databaseId)) {
              await failBackup(tx, orgId, backupId, databaseWasDeleted)
            }
          })
          traceStep('remove.settled', databaseId)
        })
      },
      fail: never,
    },

    'database.discard': {
      async run({ orgId, databaseId }, settle) {
        await deps.databaseWork.run(databaseId, async () => {
          const database = await deps.db.begin((tx) => lockDatabase(tx, orgId, databaseId))
          // It may have been placed here again, on the only node with room.
          if (database !== null && database.node !== deps.node) await deps.driver.remove(databaseId)
        })
        await settle(async () => {})
      },
      fail: never,
    },

    'backup.remove': {
      async run({ orgId, backupId }, settle) {
        traceStep('remove_backup.deleting', backupId)
        const archived = await findBackup(deps.db, orgId, backupId)
        if (archived !== null) await deps.driver.removeBackup({ databaseId: archived.database_id, backupId })
        traceStep('remove_backup.settling', backupId)
        await settle(async (tx) => {
          const backup = await lockBackup(tx, orgId, backupId)
          const next = backup && moveBackup(backup.status, 'clear')
          if (next !== null) await setBackupStatus(tx, orgId, backupId, next)
        })
      },
      fail: never,
    },
  }
}
