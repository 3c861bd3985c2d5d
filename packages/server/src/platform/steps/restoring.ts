import type { Database } from '../../db/database.ts'
import { moveDatabase } from '../../domain/database.ts'
import { moveRestore } from '../../domain/restore.ts'
import { thresholdsOf } from '../../domain/storage.ts'
import type { KeyedQueue } from '../../kernel/keyed-queue.ts'
import { findBackup } from '../../store/platform/backups.ts'
import { countDatabasesOfNode, lockDatabase, markDatabaseServing } from '../../store/platform/databases.ts'
import { findRestore, lockRestore, markRestoreCompleted, recordRestoreProgress } from '../../store/platform/restores.ts'
import { startUsage } from '../../store/platform/usage.ts'
import { publish } from '../../webhooks/publish.ts'
import { type DatabaseDriver, StepFailure } from '../driver.ts'
import type { Handlers } from '../jobs/worker.ts'
import type { StorageMonitor } from '../storage/monitor.ts'
import { createProgressWriter } from './progress.ts'
import { failDatabase, failRestore } from './settle-failure.ts'
import { traceStep } from './trace-step.ts'

type Deps = {
  db: Database
  driver: DatabaseDriver
  node: string
  databasesPerNodeMax: number
  storageLimitBytes: number
  databaseWork: KeyedQueue
  storage: Pick<StorageMonitor, 'room'>
}

/** From a backup to a new database. The restore and its database get their outcome in the same transaction. */
export function createRestoring(deps: Deps): Pick<Handlers, 'restore.run'> {
  const { db, driver } = deps

  return {
    'restore.run': {
      async run({ orgId, restoreId }, settle) {
        const restore = await findRestore(db, orgId, restoreId)
        if (restore === null || restore.status !== 'running') return
        const databaseId = restore.database_id
        await deps.databaseWork.run(databaseId, async (signal) => {
          const database = await db.begin((tx) => lockDatabase(tx, orgId, databaseId))
          // Deleted in the meantime: the job that removes it settles the restore as well.
          if (database === null || database.status !== 'provisioning' || database.password_verifier === null) return
          const backup = await findBackup(db, orgId, restore.backup_id)
          if (backup?.status !== 'completed') throw new StepFailure('The backup is gone.', { permanent: true })
          await db.begin(async (tx) => {
            // The count includes its own row.
            if ((await countDatabasesOfNode(tx, deps.node)) <= deps.databasesPerNodeMax) return
            throw new StepFailure('The node that has the backup has no room for it.', { permanent: true })
          })
          const bytesTotal = backup.bytes_total ?? 0
          const progress = createProgressWriter((bytes) => recordRestoreProgress(db, orgId, restoreId, bytes))
          const address = await driver.restore(databaseId, {
            orgId,
            from: {
              databaseId: backup.database_id,
              backupId: backup.id,
              sha256: backup.sha256,
              keyId: backup.key_id,
            },
            to: restore.recover_to,
            passwordVerifier: database.password_verifier,
            bytesMax: thresholdsOf(database.storage_limit_bytes ?? deps.storageLimitBytes).stopBytes,
            onProgress: (bytesDone) => progress.report({ bytesDone, bytesTotal: Math.max(bytesTotal, bytesDone) }),
            signal: AbortSignal.any([signal, deps.storage.room()]),
          })
          await progress.settle()
          traceStep('restore.settling', databaseId)
          let hasFailed = false
          await settle(async (tx) => {
            const current = await lockDatabase(tx, orgId, databaseId)
            hasFailed = current?.status === 'failed'
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
          traceStep('restore.settled', databaseId)
          // This node counted as dead and the failure was published, so the instance is not needed.
          if (hasFailed) await driver.remove(databaseId)
        })
      },
      async fail({ orgId, restoreId }, reason, settle, cleanUp) {
        const restore = await findRestore(db, orgId, restoreId)
        if (restore === null) return settle(async () => {})
        const databaseId = restore.database_id
        await deps.databaseWork.run(databaseId, async () => {
          const before = await db.begin((tx) => lockDatabase(tx, orgId, databaseId))
          if (before !== null && moveDatabase(before.status, 'give_up') !== null)
            await cleanUp(() => driver.remove(databaseId))
          traceStep('restore.failing', databaseId)
          await settle(async (tx) => {
            const database = await lockDatabase(tx, orgId, databaseId)
            await failRestore(tx, orgId, restoreId, reason)
            if (database !== null) await failDatabase(tx, orgId, database, reason)
          })
        })
      },
    },
  }
}
