import { type ArchiveStore, removeBelow } from '../../../archives/archive-store.ts'
import type { BackupOf } from '../../../archives/backup-archives.ts'
import { positionOf, segmentOf } from '../../../archives/wal-archive.ts'
import type { DatabaseId } from '../../../lib/ids.ts'
import { DamagedArchive, StepFailure } from '../../../lib/step-failure.ts'
import type { DatabaseDriver } from '../driver.ts'
import type { KubernetesApi } from './api.ts'
import {
  type Backup,
  backup,
  backupIn,
  backups,
  bucketFolder,
  type Cluster,
  clusters,
  nameOf,
  ofDatabase,
  ofKeyhook,
} from './resources.ts'

type BackupDriver = Pick<DatabaseDriver, 'backup' | 'removeBackup' | 'existingBackups' | 'archiveWal' | 'removeWal'> & {
  /** Of a database that was removed. Returns how many objects there were. */
  eraseBackups(id: DatabaseId): Promise<number>
}

/** Positions that are before and after every other: CloudNativePG archives on its own and does not say how far it is. */
const [firstLsn, lastLsn] = ['0/0', 'FFFFFFFF/FFFFFFFF']

const hasEnded = (phase: string | undefined): boolean => phase === 'completed' || hasFailed(phase)
const hasFailed = (phase: string | undefined): boolean => phase === 'failed' || phase === 'invalid backup definition'

/** Backups as resources of CloudNativePG, which Barman stores in the bucket. */
export function createBackups(deps: { api: KubernetesApi; store: ArchiveStore; archiveSeconds: number }): {
  driver: BackupDriver
  /** Barman's name of a backup that can be restored. */
  find(of: BackupOf): Promise<string>
} {
  const { api, store } = deps
  const backupsOf = (id: DatabaseId) => api.list<Backup>(backups, { labels: ofDatabase(id) })

  const driver: BackupDriver = {
    async backup(of, { onProgress, signal }) {
      const name = nameOf(of.backupId)
      const before = await api.get<Backup>(backups, name, { signal })
      // It stays failed; another attempt needs another resource.
      if (hasFailed(before?.status?.phase)) await removeResource(name, signal)
      await api.apply(backups, backup(of), { signal })
      const look = (found: Backup | null): Backup | undefined => {
        if (found === null) throw new StepFailure('The backup was deleted.', { permanent: true })
        // How far it is nobody knows; that it runs is worth a sign.
        if (found.status?.phase !== undefined) onProgress({ bytesDone: 0, bytesTotal: 0 })
        return hasEnded(found.status?.phase) ? found : undefined
      }
      const { status = {} } = await api.watchUntil<Backup, Backup>(backups, name, look, { signal })
      if (hasFailed(status.phase)) {
        throw new StepFailure('CloudNativePG could not take the backup.', {
          cause: new Error(status.error ?? status.phase),
        })
      }
      const bytes = await storedBytes(store, of.databaseId, status.backupId ?? '')
      if (bytes === null)
        throw new StepFailure('The backup is not in the store.', { cause: new Error(status.backupId) })
      return {
        bytes,
        contentBytes: bytes,
        sha256: null,
        keyId: null,
        wal: {
          start_lsn: status.beginLSN ?? firstLsn,
          stop_lsn: status.endLSN ?? status.beginLSN ?? firstLsn,
          stopped_at: status.stoppedAt ?? null,
        },
      }
    },

    async removeBackup(of) {
      const found = await api.get<Backup>(backups, nameOf(of.backupId))
      const barmanId = found?.status?.backupId
      // Objects first: after a crash, the resource still says which ones.
      if (barmanId !== undefined) await removeBase(store, of.databaseId, barmanId)
      await removeResource(nameOf(of.backupId), AbortSignal.timeout(60_000))
      const isLast = (await backupsOf(of.databaseId)).length === 0
      const hasCluster = (await api.get(clusters, nameOf(of.databaseId))) !== null
      if (isLast && !hasCluster) await removeEverything(store, of.databaseId)
    },

    async existingBackups() {
      const found = await api.list<Backup>(backups, { labels: ofKeyhook })
      return found.map(backupIn).filter((id) => id !== null)
    },

    async archiveWal(id, { after, signal }) {
      const found = await api.get<Cluster>(clusters, nameOf(id), { signal })
      const archiving = found?.status?.conditions?.find(({ type }) => type === 'ContinuousArchiving')
      if (archiving?.status !== 'True') {
        const cause = new Error(archiving?.message ?? 'CloudNativePG has not said that it archives WAL')
        throw new StepFailure('The write-ahead log of the database is not being stored.', { cause })
      }
      // What was written is closed after `archiveSeconds` and stored soon after that.
      const at = new Date(Date.now() - 2 * deps.archiveSeconds * 1_000)
      const wal = { from: after === null ? firstLsn : null, until: lastLsn, committed: lastLsn, at }
      return { ...wal, bytes: 0, isEncrypted: false }
    },

    async removeWal(id, before) {
      const kept = await backupsOf(id)
      // The WAL of a backup is not in the backup, so what is kept needs it, also when the database is deleted.
      if (before === null && kept.length === 0) return removeEverything(store, id)
      const needed = kept.map(({ status }) => status?.beginWal)
      if (needed.every((segment) => segment !== undefined)) await removeWalBefore(store, id, before ?? lastLsn, needed)
    },

    async eraseBackups(id) {
      for (const { metadata } of await backupsOf(id)) await removeResource(metadata.name, AbortSignal.timeout(60_000))
      return removeBelow(store, folderOf(id))
    },
  }

  async function removeResource(name: string, signal: AbortSignal): Promise<void> {
    await api.remove(backups, name)
    await api.watchUntil<Backup, true>(backups, name, (found) => (found === null ? true : undefined), { signal })
  }

  return {
    driver,
    async find(of) {
      const found = await api.get<Backup>(backups, nameOf(of.backupId))
      const barmanId = found?.status?.backupId
      if (barmanId === undefined) throw new StepFailure('The backup is gone.', { permanent: true })
      if ((await storedBytes(store, of.databaseId, barmanId)) === null) throw new DamagedArchive('it is missing')
      return barmanId
    },
  }
}

/* Barman stores `base/<backup>/` and `wals/<16 digits>/<segment>.gz`. Deleting a Backup in Kubernetes removes nothing there, so Keyhook does. */
const folderOf = (id: DatabaseId): string => `${bucketFolder}/${nameOf(id)}/`
const baseOf = (id: DatabaseId, barmanId: string): string => `${folderOf(id)}base/${barmanId}/`

/** The bytes of a backup; null if it is not there or not complete. */
export async function storedBytes(store: ArchiveStore, id: DatabaseId, barmanId: string): Promise<number | null> {
  // Barman writes this file last.
  if ((await store.head(`${baseOf(id, barmanId)}backup.info`)) === null) return null
  let bytes = 0
  for await (const object of store.list(baseOf(id, barmanId))) bytes += object.bytes
  return bytes
}

export const removeBase = (store: ArchiveStore, id: DatabaseId, barmanId: string): Promise<void> =>
  removeAll(store, baseOf(id, barmanId), () => true)

export const removeEverything = (store: ArchiveStore, id: DatabaseId): Promise<void> =>
  removeAll(store, folderOf(id), () => true)

/** The segments before both: the position, and the first segment that any of these backups needs to become consistent. */
export async function removeWalBefore(
  store: ArchiveStore,
  id: DatabaseId,
  before: string,
  firstSegments: readonly string[],
): Promise<void> {
  const needed = firstSegments.map(positionOf).filter((position) => position !== null)
  const first = Math.min(segmentOf(before), ...needed)
  await removeAll(store, `${folderOf(id)}wals/`, (name) => {
    const position = positionOf(name.slice(name.lastIndexOf('/') + 1).slice(0, 24))
    return position !== null && position < first
  })
}

async function removeAll(store: ArchiveStore, prefix: string, isOld: (name: string) => boolean): Promise<void> {
  for await (const { name } of store.list(prefix)) if (isOld(name)) await store.remove(name)
}
