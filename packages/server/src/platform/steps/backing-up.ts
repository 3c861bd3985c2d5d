import type { Database } from '../../db/database.ts'
import { isListed, moveBackup } from '../../domain/backup.ts'
import type { KeyedQueue } from '../../kernel/keyed-queue.ts'
import { findBackup, lockBackup, markBackupCompleted, recordBackupProgress } from '../../store/platform/backups.ts'
import { findDatabase } from '../../store/platform/databases.ts'
import { publish } from '../../webhooks/publish.ts'
import type { ArchiveOf, BackupArchives, StoredArchive } from '../archive/backup-archives.ts'
import type { Manifest } from '../archive/manifest.ts'
import { readArchive } from '../archive/read-archive.ts'
import { type DatabaseDriver, StepFailure } from '../driver.ts'
import type { Handlers } from '../jobs/worker.ts'
import type { StorageMonitor } from '../storage/monitor.ts'
import { createProgressWriter } from './progress.ts'
import { failBackup } from './settle-failure.ts'
import { traceStep } from './trace-step.ts'

type Deps = {
  db: Database
  driver: DatabaseDriver
  archives: BackupArchives
  databaseWork: KeyedQueue
  storage: Pick<StorageMonitor, 'room'>
}

/** From a running database to an archive that was read back and verified. */
export function createBackingUp(deps: Deps): Pick<Handlers, 'backup.take'> {
  const { db, driver, archives } = deps

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
          const archive = { databaseId, backupId }
          // Left by an interrupted attempt.
          await archives.remove(archive)
          const progress = createProgressWriter((bytes) => recordBackupProgress(db, orgId, backupId, bytes))
          // The archive may be on the same disk, and a backup keeps WAL that the database no longer needs.
          const wanted = AbortSignal.any([signal, deps.storage.room()])
          const content = driver.backup(databaseId, { onProgress: progress.report, signal: wanted })
          const stored = await archives.write(archive, content, { signal: wanted })
          traceStep('backup.verifying', databaseId)
          const manifest = await verify(archives, archive, stored, signal)
          await progress.settle()
          traceStep('backup.settling', databaseId)
          let hasFailed = false
          await settle(async (tx) => {
            const current = await lockBackup(tx, orgId, backupId)
            hasFailed = current?.status === 'failed'
            const next = current && moveBackup(current.status, 'complete')
            if (next === null) return
            await markBackupCompleted(tx, orgId, backupId, next, { ...stored, ...contentsOf(manifest) })
            if (!isListed(backup)) return
            const data = { backup_id: backupId, database_id: databaseId, size_bytes: stored.bytes }
            await publish(tx, { orgId, type: 'backup.completed', data })
          })
          traceStep('backup.settled', databaseId)
          // This node counted as dead and the failure was published, so the archive is not needed.
          if (hasFailed) await archives.remove(archive)
        })
      },
      async fail({ orgId, backupId }, reason, settle, cleanUp) {
        const before = await findBackup(db, orgId, backupId)
        if (before !== null && moveBackup(before.status, 'give_up') !== null)
          await cleanUp(() => archives.remove({ databaseId: before.database_id, backupId }))
        traceStep('backup.failing', backupId)
        await settle((tx) => failBackup(tx, orgId, backupId, reason))
      },
    },
  }
}

/** Reads the stored archive again: checks its checksum, and each file against the manifest. */
async function verify(
  archives: BackupArchives,
  archive: ArchiveOf,
  { sha256 }: StoredArchive,
  signal: AbortSignal,
): Promise<Manifest> {
  const receiver = {
    async directory() {},
    async file(_path: string, body: AsyncIterable<Buffer>) {
      for await (const _part of body) signal.throwIfAborted()
    },
  }
  return readArchive(archives.read(archive, { sha256, signal }), receiver)
}

const contentsOf = ({ files, start_lsn, stop_lsn, stopped_at }: Manifest) => ({
  contentBytes: files.reduce((sum, file) => sum + file.bytes, 0),
  wal: { start_lsn, stop_lsn, stopped_at: stopped_at ?? null },
})
