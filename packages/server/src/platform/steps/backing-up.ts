import type { Database } from '../../db/database.ts'
import { moveBackup } from '../../domain/backup.ts'
import type { BackupId } from '../../kernel/ids.ts'
import { findBackup, lockBackup, markBackupCompleted, recordBackupProgress } from '../../store/platform/backups.ts'
import { findDatabase } from '../../store/platform/databases.ts'
import { publish } from '../../webhooks/publish.ts'
import type { ArchiveStore, StoredArchive } from '../archive/archive-store.ts'
import { asWritten } from '../archive/as-written.ts'
import { readArchive } from '../archive/read-archive.ts'
import { type DatabaseDriver, StepFailure } from '../driver.ts'
import type { Turns } from '../jobs/turns.ts'
import type { Handlers } from '../jobs/worker.ts'
import { giveUpBackup } from './giving-up.ts'
import { createProgressWriter } from './progress.ts'
import { step } from './step.ts'

type Deps = { db: Database; driver: DatabaseDriver; archives: ArchiveStore; turns: Turns }

/** From a running database to an archive that was read back whole. */
export function createBackingUp(deps: Deps): Pick<Handlers, 'backup.take'> {
  const { db, driver, archives } = deps

  return {
    'backup.take': {
      async run({ orgId, backupId }, settle) {
        const asked = await findBackup(db, orgId, backupId)
        if (asked === null) return
        const databaseId = asked.database_id
        await deps.turns.take(databaseId, async (signal) => {
          const backup = await findBackup(db, orgId, backupId)
          if (backup?.status !== 'running') return
          const database = await findDatabase(db, orgId, databaseId)
          if (database?.status !== 'available') {
            throw new StepFailure('The database is not available.', { lasting: true })
          }
          // What an attempt that was cut off has left.
          await archives.remove(backupId)
          const progress = createProgressWriter((bytes) => recordBackupProgress(db, orgId, backupId, bytes))
          const content = driver.backup(databaseId, { onProgress: progress.report, signal })
          const stored = await archives.write(backupId, content)
          step('backup.verifying', databaseId)
          const contentBytes = await verify(archives, backupId, stored, signal)
          await progress.settle()
          step('backup.settling', databaseId)
          let givenUp = false
          await settle(async (tx) => {
            const current = await lockBackup(tx, orgId, backupId)
            givenUp = current?.status === 'failed'
            const next = current && moveBackup(current.status, 'complete')
            if (next === null) return
            await markBackupCompleted(tx, orgId, backupId, next, { ...stored, contentBytes })
            const data = { backup_id: backupId, database_id: databaseId, size_bytes: stored.bytes }
            await publish(tx, { orgId, type: 'backup.completed', data })
          })
          step('backup.settled', databaseId)
          // This node was taken for dead, and the failure told: what came all the same is nobody's.
          if (givenUp) await archives.remove(backupId)
        })
      },
      async giveUp({ orgId, backupId }, reason, settle, tidy) {
        const before = await findBackup(db, orgId, backupId)
        if (before !== null && moveBackup(before.status, 'give_up') !== null)
          await tidy(() => archives.remove(backupId))
        step('backup.giving_up', backupId)
        await settle((tx) => giveUpBackup(tx, orgId, backupId, reason))
      },
    },
  }
}

/** Everything is read again from where it is kept: the archive as a whole, and each file in it against the manifest. */
async function verify(
  archives: ArchiveStore,
  id: BackupId,
  stored: StoredArchive,
  signal: AbortSignal,
): Promise<number> {
  const manifest = await readArchive(asWritten(archives.read(id), stored.sha256), {
    async directory() {},
    async file(_path, body) {
      for await (const _part of body) signal.throwIfAborted()
    },
  })
  return manifest.files.reduce((sum, file) => sum + file.bytes, 0)
}
