import { readArchive } from '../../../archives/archive.ts'
import type { BackupArchives } from '../../../archives/backup-archives.ts'
import type { WalArchive } from '../../../archives/wal-archive.ts'
import type { Database } from '../../../db/database.ts'
import { traceStep } from '../../../jobs/worker.ts'
import { StepFailure } from '../../../lib/step-failure.ts'
import { walToReplay } from '../../wal-sql.ts'
import type { DatabaseDriver, LocalInstances } from '../driver.ts'

/** Databases on this machine, with backups and log in the archive store. A backup is an archive that was read back and verified. */
export function createLocalDriver(deps: {
  instances: LocalInstances
  archives: BackupArchives
  wal: WalArchive
  db: Database
}): DatabaseDriver {
  const { instances, archives, wal, db } = deps
  const { remove, existing, resume, close } = instances

  return {
    remove,
    existing,
    resume,
    close,
    removeBackup: archives.remove,
    existingBackups: archives.existing,
    removeWal: wal.removeBefore,

    async erase(databaseId, backups) {
      await remove(databaseId)
      for (const backupId of backups) await archives.remove({ databaseId, backupId })
      return archives.removeDatabase(databaseId)
    },

    moving: {
      closeToClients: instances.closeToClients,
      openToClients: instances.openToClients,
      async restoreAll(id, { from, wal: range, signal }) {
        return instances.restore(id, {
          archive: archives.read(from, { ...from, signal }),
          wal: { files: await wal.between(id, range), to: null, committed: range.committed },
          passwordVerifier: null,
          // What it had on its old node, it has here.
          bytesMax: Number.POSITIVE_INFINITY,
          onProgress() {},
          signal,
        })
      },
    },

    provision: (id, { passwordVerifier, signal }) => instances.provision(id, { passwordVerifier, signal }),

    async restore(id, { orgId, from, to, passwordVerifier, bytesMax, onProgress, signal }) {
      const { sha256, keyId } = from
      if (sha256 === null) throw new StepFailure('The backup is not an archive of this node.', { permanent: true })
      const replayed = async (until: Date) => {
        const range = await walToReplay(db, orgId, from.backupId, until)
        if (range === null)
          throw new StepFailure('The write-ahead log of the database was removed.', { permanent: true })
        return { files: await wal.between(from.databaseId, range), to: until, committed: range.committed }
      }
      return instances.restore(id, {
        archive: archives.read(from, { sha256, keyId, signal }),
        ...(to !== null && { wal: await replayed(to) }),
        passwordVerifier,
        bytesMax,
        onProgress,
        signal,
      })
    },

    async backup(of, { bytesMax, onProgress, signal }) {
      // Left by an interrupted attempt.
      await archives.remove(of)
      const content = instances.backup(of.databaseId, { bytesMax, onProgress, signal })
      const stored = await archives.write(of, content, { signal })
      traceStep('backup.verifying', of.databaseId)
      // Read again: its checksum, and each file against the manifest.
      const receiver = {
        async directory() {},
        async file(_path: string, body: AsyncIterable<Buffer>) {
          for await (const _part of body) signal.throwIfAborted()
        },
      }
      const { sha256, keyId } = stored
      const verified = await readArchive(archives.read(of, { sha256, keyId, signal }), receiver, { bytesMax })
      const { files, start_lsn, stop_lsn, stopped_at = null } = verified
      const contentBytes = files.reduce((sum, file) => sum + file.bytes, 0)
      return { ...stored, contentBytes, wal: { start_lsn, stop_lsn, stopped_at } }
    },

    async archiveWal(id, { after, isEncrypted: earlier, signal }) {
      let bytes = 0
      const isEncrypted = wal.encrypts(earlier)
      const store = async (name: string, content: Buffer) => {
        bytes += await wal.write(id, name, content, { isEncrypted, signal })
        traceStep('wal.stored', id)
      }
      return { ...(await instances.archiveWal(id, { after, store, signal })), bytes, isEncrypted }
    },
  }
}
