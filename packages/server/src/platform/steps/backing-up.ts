import type { Database } from '../../db/database.ts'
import { isListed, moveBackup, wasCancelled } from '../../domain/backup.ts'
import { thresholdsOf } from '../../domain/storage.ts'
import type { KeyedQueue } from '../../kernel/keyed-queue.ts'
import { findBackup, lockBackup, markBackupCompleted, recordBackupProgress } from '../../store/platform/backups.ts'
import { findDatabase } from '../../store/platform/databases.ts'
import { publish } from '../../webhooks/publish.ts'
import { requireArchiveQuota } from '../archive-quota.ts'
import { type DatabaseDriver, StepFailure } from '../driver.ts'
import type { Handlers } from '../jobs/worker.ts'
import type { StorageMonitor } from '../storage/monitor.ts'
import { createProgressWriter } from './progress.ts'
import { failBackup } from './settle-failure.ts'
import { traceStep } from './trace-step.ts'

type Deps = {
  db: Database
  driver: DatabaseDriver
  databaseWork: KeyedQueue
  storage: Pick<StorageMonitor, 'room'>
  storageLimitBytes: number
  archivesPerOrgMax: number
}

const cancelledCheckMs = 1_000

/** From a running database to a stored backup. */
export function createBackingUp(deps: Deps): Pick<Handlers, 'backup.take'> {
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
          await requireArchiveQuota(db, orgId, deps.archivesPerOrgMax, stored.bytes)
          await progress.settle()
          traceStep('backup.settling', databaseId)
          let hasFailed = false
          await settle(async (tx) => {
            const current = await lockBackup(tx, orgId, backupId)
            hasFailed = current?.status === 'failed'
            const next = current && moveBackup(current.status, 'complete')
            if (next === null) return
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
