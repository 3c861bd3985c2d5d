import type { Database } from '../../db/database.ts'
import { moveBackup } from '../../domain/backup.ts'
import { databaseWasDeleted, moveDatabase } from '../../domain/database.ts'
import { lockBackup, runningBackupsOf, setBackupStatus } from '../../store/platform/backups.ts'
import { lockDatabase, markDatabaseCleared } from '../../store/platform/databases.ts'
import { runningRestoreInto } from '../../store/platform/restores.ts'
import type { ArchiveStore } from '../archive/archive-store.ts'
import { type DatabaseDriver, StepFailure } from '../driver.ts'
import type { Turns } from '../jobs/turns.ts'
import type { Handlers } from '../jobs/worker.ts'
import { giveUpBackup, giveUpRestore } from './giving-up.ts'
import { step } from './step.ts'

/** The end of a database or of an archive. What is under way for it is told to stop, and its outcome is failure. */
export function createRemoval(deps: {
  db: Database
  driver: DatabaseDriver
  archives: ArchiveStore
  node: string
  turns: Turns
}): Pick<Handlers, 'database.remove' | 'database.discard' | 'backup.remove'> {
  const never = async (_job: unknown, reason: string) => {
    throw new Error(`a removal is not given up: ${reason}`)
  }

  return {
    'database.remove': {
      async run({ orgId, databaseId }, settle) {
        deps.turns.interrupt(databaseId, new StepFailure(databaseWasDeleted, { lasting: true }))
        await deps.turns.take(databaseId, async () => {
          await deps.driver.remove(databaseId)
          step('remove.settling', databaseId)
          await settle(async (tx) => {
            const database = await lockDatabase(tx, orgId, databaseId)
            const next = database && moveDatabase(database.status, 'clear')
            if (next === null) return
            await markDatabaseCleared(tx, orgId, databaseId, next)
            const restoreId = await runningRestoreInto(tx, orgId, databaseId)
            if (restoreId !== null) await giveUpRestore(tx, orgId, restoreId, databaseWasDeleted)
            for (const backupId of await runningBackupsOf(tx, orgId, databaseId)) {
              await giveUpBackup(tx, orgId, backupId, databaseWasDeleted)
            }
          })
          step('remove.settled', databaseId)
        })
      },
      giveUp: never,
    },

    'database.discard': {
      async run({ orgId, databaseId }, settle) {
        await deps.turns.take(databaseId, async () => {
          const database = await deps.db.begin((tx) => lockDatabase(tx, orgId, databaseId))
          // It may have come back here, as to the only node with room.
          if (database !== null && database.node !== deps.node) await deps.driver.remove(databaseId)
        })
        await settle(async () => {})
      },
      giveUp: never,
    },

    'backup.remove': {
      async run({ orgId, backupId }, settle) {
        step('remove_backup.deleting', backupId)
        await deps.archives.remove(backupId)
        step('remove_backup.settling', backupId)
        await settle(async (tx) => {
          const backup = await lockBackup(tx, orgId, backupId)
          const next = backup && moveBackup(backup.status, 'clear')
          if (next !== null) await setBackupStatus(tx, orgId, backupId, next)
        })
      },
      giveUp: never,
    },
  }
}
