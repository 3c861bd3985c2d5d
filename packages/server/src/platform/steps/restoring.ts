import type { Database } from '../../db/database.ts'
import { moveDatabase } from '../../domain/database.ts'
import { moveRestore } from '../../domain/restore.ts'
import { findBackup } from '../../store/platform/backups.ts'
import { countDatabasesOfNode, lockDatabase, markDatabaseServing } from '../../store/platform/databases.ts'
import { findRestore, lockRestore, markRestoreCompleted, recordRestoreProgress } from '../../store/platform/restores.ts'
import { startUsage } from '../../store/platform/usage.ts'
import { publish } from '../../webhooks/publish.ts'
import type { ArchiveStore } from '../archive/archive-store.ts'
import { asWritten } from '../archive/as-written.ts'
import { type DatabaseDriver, StepFailure } from '../driver.ts'
import type { Turns } from '../jobs/turns.ts'
import type { Handlers } from '../jobs/worker.ts'
import { giveUpDatabase, giveUpRestore } from './giving-up.ts'
import { createProgressWriter } from './progress.ts'
import { step } from './step.ts'

type Deps = {
  db: Database
  driver: DatabaseDriver
  archives: ArchiveStore
  node: string
  databasesPerNodeMax: number
  turns: Turns
}

/** From an archive to a new database. The restore and its database end together, one way or the other. */
export function createRestoring(deps: Deps): Pick<Handlers, 'restore.run'> {
  const { db, driver, archives } = deps

  return {
    'restore.run': {
      async run({ orgId, restoreId }, settle) {
        const restore = await findRestore(db, orgId, restoreId)
        if (restore === null || restore.status !== 'running') return
        const databaseId = restore.database_id
        await deps.turns.take(databaseId, async (signal) => {
          const database = await db.begin((tx) => lockDatabase(tx, orgId, databaseId))
          // Deleted before it began: that job settles the restore as well.
          if (database === null || database.status !== 'provisioning' || database.password_verifier === null) return
          const backup = await findBackup(db, orgId, restore.backup_id)
          if (backup?.status !== 'completed') throw new StepFailure('The backup is gone.', { lasting: true })
          await db.begin(async (tx) => {
            // Its own row is counted already.
            if ((await countDatabasesOfNode(tx, deps.node)) <= deps.databasesPerNodeMax) return
            throw new StepFailure('The node that has the backup has no room for it.', { lasting: true })
          })
          const bytesTotal = backup.bytes_total ?? 0
          const progress = createProgressWriter((bytes) => recordRestoreProgress(db, orgId, restoreId, bytes))
          const address = await driver.restore(databaseId, {
            // Every archive fits its own manifest: only the record tells one from another.
            archive: asWritten(archives.read(restore.backup_id), backup.sha256!),
            passwordVerifier: database.password_verifier,
            onProgress: (bytesDone) => progress.report({ bytesDone, bytesTotal: Math.max(bytesTotal, bytesDone) }),
            signal,
          })
          await progress.settle()
          step('restore.settling', databaseId)
          let givenUp = false
          await settle(async (tx) => {
            const current = await lockDatabase(tx, orgId, databaseId)
            givenUp = current?.status === 'failed'
            const next = current && moveDatabase(current.status, 'serve')
            const ending = await lockRestore(tx, orgId, restoreId)
            const ended = ending && moveRestore(ending.status, 'complete')
            if (next === null || ended === null) return
            await markDatabaseServing(tx, orgId, databaseId, next, address)
            await startUsage(tx, orgId, databaseId)
            await markRestoreCompleted(tx, orgId, restoreId, ended)
            const data = { restore_id: restoreId, backup_id: restore.backup_id, database_id: databaseId }
            await publish(tx, { orgId, type: 'restore.completed', data })
          })
          step('restore.settled', databaseId)
          // This node was taken for dead, and the failure told: what came all the same is nobody's.
          if (givenUp) await driver.remove(databaseId)
        })
      },
      async giveUp({ orgId, restoreId }, reason, settle, tidy) {
        const restore = await findRestore(db, orgId, restoreId)
        if (restore === null) return settle(async () => {})
        const databaseId = restore.database_id
        await deps.turns.take(databaseId, async () => {
          const before = await db.begin((tx) => lockDatabase(tx, orgId, databaseId))
          if (before !== null && moveDatabase(before.status, 'give_up') !== null)
            await tidy(() => driver.remove(databaseId))
          step('restore.giving_up', databaseId)
          await settle(async (tx) => {
            const database = await lockDatabase(tx, orgId, databaseId)
            await giveUpRestore(tx, orgId, restoreId, reason)
            if (database !== null) await giveUpDatabase(tx, orgId, database, reason)
          })
        })
      },
    },
  }
}
