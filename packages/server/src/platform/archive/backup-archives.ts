import { createHash } from 'node:crypto'
import { basename } from 'node:path'
import { type BackupId, type DatabaseId, isId } from '../../kernel/ids.ts'
import { DamagedArchive } from '../driver.ts'
import { type ArchiveStore, MissingObject, type StoredObject } from './archive-store.ts'

export type ArchiveOf = { databaseId: DatabaseId; backupId: BackupId }

/** The archives of backups, in a store of named objects. */
export type BackupArchives = {
  write(of: ArchiveOf, content: AsyncIterable<Uint8Array>, options?: { signal?: AbortSignal }): Promise<StoredObject>
  /** Throws `DamagedArchive` at the end if it is not what `write` stored, and at once if there is none. */
  read(of: ArchiveOf, expected: { sha256: string; signal?: AbortSignal }): AsyncIterable<Uint8Array>
  /** Also removes what an interrupted `write` left. */
  remove(of: ArchiveOf): Promise<void>
  /** Every backup of which anything is stored, complete or not. */
  existing(): Promise<BackupId[]>
}

const folder = 'backups/'
const suffix = '.tar.zst'
const nameOf = ({ databaseId, backupId }: ArchiveOf) => `${folder}${databaseId}/${backupId}${suffix}`
/** Archives that were written before they were sorted by database. */
const oldNameOf = ({ backupId }: ArchiveOf) => `${backupId}${suffix}`

const backupIn = (name: string): BackupId | null => {
  const id = basename(name).split('.')[0]!
  return isId('bak', id) ? id : null
}

export function createBackupArchives(store: ArchiveStore): BackupArchives {
  return {
    write: (of, content, options) => store.put(nameOf(of), content, options),
    async *read(of, { sha256, signal }) {
      const options = signal ? { signal } : {}
      const name = (await store.head(nameOf(of))) ? nameOf(of) : oldNameOf(of)
      yield* verifyChecksum(reportMissing(store.get(name, options)), sha256)
    },
    async remove(of) {
      for (const name of [nameOf(of), oldNameOf(of)]) await store.remove(name)
    },
    async existing() {
      const ids = new Set<BackupId | null>()
      for (const prefix of [folder, 'bak_']) {
        for await (const { name } of store.list(prefix)) ids.add(backupIn(name))
        for await (const name of store.unfinished(prefix)) ids.add(backupIn(name))
      }
      return [...ids].filter((id) => id !== null)
    },
  }
}

async function* reportMissing(content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* content
  } catch (error) {
    throw error instanceof MissingObject ? new DamagedArchive('it is missing', error) : error
  }
}

/** Compares at the end: every archive matches its own manifest, only the stored checksum tells two archives apart. */
async function* verifyChecksum(archive: AsyncIterable<Uint8Array>, sha256: string): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  for await (const part of archive) {
    hash.update(part)
    yield part
  }
  if (hash.digest('hex') !== sha256) throw new DamagedArchive('its checksum is not the stored one')
}
