import type { DatabaseId } from '../../kernel/ids.ts'
import type { ArchiveStore } from '../archive/archive-store.ts'
import { positionOf, segmentOf } from '../wal-names.ts'
import { nameOf } from './names.ts'
import { bucketFolder } from './resources.ts'

/*
 * What Barman stores in the bucket for a database: `base/<backup>/` and `wals/<16 digits>/<segment>.gz`. Deleting a Backup in Kubernetes
 * removes nothing there, and Barman's own retention ends with the Cluster. So Keyhook removes it.
 */

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
