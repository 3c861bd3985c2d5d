import { moveBackup } from '../../domain/backup.ts'
import { databaseWasDeleted, moveDatabase } from '../../domain/database.ts'
import { moveRestore } from '../../domain/restore.ts'
import type { BackupId, DatabaseId, OrgId } from '../../kernel/ids.ts'
import type { Database, Transaction } from '../../store/database.ts'
import { lockBackup, markBackupGivenUp, runningBackupsOf, setBackupStatus } from '../../store/platform/backups.ts'
import { lockDatabase, markDatabaseCleared } from '../../store/platform/databases.ts'
import { lockRestore, markRestoreGivenUp, runningRestoreInto } from '../../store/platform/restores.ts'
import { publish } from '../../webhooks/publishing/publish.ts'
import type { ArchiveStore } from '../archive/archive-store.ts'
import { type DatabaseDriver, StepFailure } from '../driver.ts'
import type { Turns } from '../jobs/turns.ts'
import type { Handlers } from '../jobs/worker.ts'
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
            await failRestoreInto(tx, orgId, databaseId)
            for (const id of await runningBackupsOf(tx, orgId, databaseId)) await failBackup(tx, orgId, id, databaseId)
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

async function failRestoreInto(tx: Transaction, orgId: OrgId, databaseId: DatabaseId): Promise<void> {
  const id = await runningRestoreInto(tx, orgId, databaseId)
  if (id === null) return
  const restore = await lockRestore(tx, orgId, id)
  const next = restore && moveRestore(restore.status, 'give_up')
  if (next !== null) await markRestoreGivenUp(tx, orgId, id, next, databaseWasDeleted)
}

async function failBackup(tx: Transaction, orgId: OrgId, id: BackupId, databaseId: DatabaseId): Promise<void> {
  const backup = await lockBackup(tx, orgId, id)
  const next = backup && moveBackup(backup.status, 'give_up')
  if (next === null) return
  await markBackupGivenUp(tx, orgId, id, next, databaseWasDeleted)
  const data = { backup_id: id, database_id: databaseId, reason: databaseWasDeleted }
  await publish(tx, { orgId, type: 'backup.failed', data })
}
