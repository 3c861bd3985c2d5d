import { moveDatabase } from '../databases/database.ts'
import { failDatabase } from '../databases/rules.ts'
import { countDatabasesOfNode, findDatabase, lockDatabase, markDatabaseServing } from '../databases/sql.ts'
import { neverFails, type StepDeps } from '../databases/steps.ts'
import { thresholdsOf } from '../databases/storage-rules.ts'
import { startUsage } from '../databases/usage-sql.ts'
import { publish } from '../delivery/publish.ts'
import { createProgressWriter, type Handlers, traceStep } from '../jobs/worker.ts'
import { StepFailure } from '../lib/step-failure.ts'
import { lockOrganization } from '../organizations/sql.ts'
import { isListed, moveBackup, moveRestore, wasCancelled } from './backup.ts'
import { failBackup, failRestore, requireArchiveQuota } from './rules.ts'
import {
  findBackup,
  findRestore,
  lockBackup,
  lockRestore,
  markBackupCompleted,
  markRestoreCompleted,
  recordBackupProgress,
  recordRestoreProgress,
  setBackupStatus,
} from './sql.ts'

const cancelledCheckMs = 1_000

/** From a running database to a stored backup, and the removal of one. */
export function createBackingUp(
  deps: StepDeps & { storageLimitBytes: number; archivesPerOrgMax: number },
): Pick<Handlers, 'backup.take' | 'backup.remove'> {
  const { db, driver } = deps

  return {
    'backup.take': {
      async run({ orgId, backupId }, settle) {
        const requested = await findBackup(db, orgId, backupId)
        if (requested === null) return
        const databaseId = requested.database_id
        await deps.databaseWork.run(databaseId, async (signal) => {
          const backup = await findBackup(db, orgId, backupId)
          if (backup?.status !== 'running') return
          const database = await findDatabase(db, orgId, databaseId)
          if (database?.status !== 'available') {
            throw new StepFailure('The database is not available.', { permanent: true })
          }
          await requireArchiveQuota(db, orgId, deps.archivesPerOrgMax)
          const of = { databaseId, backupId }
          const progress = createProgressWriter((bytes) => recordBackupProgress(db, orgId, backupId, bytes))
          const cancelled = watchCancelled(async () => (await findBackup(db, orgId, backupId))?.status === 'running')
          const stored = await driver
            .backup(of, {
              bytesMax: thresholdsOf(database.storage_limit_bytes ?? deps.storageLimitBytes).stopBytes,
              onProgress: progress.report,
              // It may be stored on the same disk, and a backup keeps WAL that the database no longer needs.
              signal: AbortSignal.any([signal, deps.storage.room(), cancelled.signal]),
            })
            .catch((error: unknown) => {
              if (!cancelled.signal.aborted) throw error
              return null
            })
            .finally(cancelled.stop)
          // Its failure is recorded and published already.
          if (stored === null) return driver.removeBackup(of)
          await progress.settle()
          traceStep('backup.settling', databaseId)
          let hasFailed = false
          await settle(async (tx) => {
            // Of two backups that end at the same time, the second counts the first.
            await lockOrganization(tx, orgId)
            const current = await lockBackup(tx, orgId, backupId)
            hasFailed = current?.status === 'failed'
            const next = current && moveBackup(current.status, 'complete')
            if (next === null) return
            await requireArchiveQuota(tx, orgId, deps.archivesPerOrgMax, stored.bytes)
            await markBackupCompleted(tx, orgId, backupId, next, stored)
            if (!isListed(backup)) return
            const data = { backup_id: backupId, database_id: databaseId, size_bytes: stored.bytes }
            await publish(tx, { orgId, type: 'backup.completed', data })
          })
          traceStep('backup.settled', databaseId)
          // This node counted as dead and the failure was published, so the backup is not needed.
          if (hasFailed) await driver.removeBackup(of)
        })
      },
      async fail({ orgId, backupId }, reason, settle, cleanUp) {
        const before = await findBackup(db, orgId, backupId)
        if (before !== null && moveBackup(before.status, 'give_up') !== null)
          await cleanUp(() => driver.removeBackup({ databaseId: before.database_id, backupId }))
        traceStep('backup.failing', backupId)
        await settle((tx) => failBackup(tx, orgId, backupId, reason))
      },
    },

    'backup.remove': {
      async run({ orgId, backupId }, settle) {
        traceStep('remove_backup.deleting', backupId)
        const archived = await findBackup(db, orgId, backupId)
        if (archived !== null) await driver.removeBackup({ databaseId: archived.database_id, backupId })
        traceStep('remove_backup.settling', backupId)
        await settle(async (tx) => {
          const backup = await lockBackup(tx, orgId, backupId)
          const next = backup && moveBackup(backup.status, 'clear')
          if (next !== null) await setBackupStatus(tx, orgId, backupId, next)
        })
      },
      fail: neverFails,
    },
  }
}

/** Aborts when the backup was cancelled, by a request to any process. A failed look is repeated. */
function watchCancelled(isRunning: () => Promise<boolean>) {
  const controller = new AbortController()
  const look = async () => {
    if (!(await isRunning().catch(() => true))) controller.abort(new StepFailure(wasCancelled, { permanent: true }))
  }
  const timer = setInterval(look, cancelledCheckMs)
  return { signal: controller.signal, stop: () => clearInterval(timer) }
}

/** From a backup to a new database. The restore and its database get their outcome in the same transaction. */
export function createRestoring(
  deps: StepDeps & { storageLimitBytes: number; databasesPerNodeMax: number },
): Pick<Handlers, 'restore.run'> {
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
            from: { databaseId: backup.database_id, backupId: backup.id, sha256: backup.sha256, keyId: backup.key_id },
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
