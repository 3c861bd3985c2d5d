import { createHash } from 'node:crypto'
import { basename } from 'node:path'
import { type BackupId, type DatabaseId, isId } from '../lib/ids.ts'
import { DamagedArchive } from '../lib/step-failure.ts'
import { type ArchiveStore, MissingObject, removeBelow, type StoredObject } from './archive-store.ts'
import { type Encryption, encryptedSuffix } from './encryption.ts'
import { walFolder } from './wal-archive.ts'

/** `keyId`: the master key that it is encrypted under, or null. The checksum and length are of the stored bytes. */
type StoredArchive = StoredObject & { keyId: string | null }

type Options = { signal?: AbortSignal }

/** The archives of backups, in a store of named objects. */
export type BackupArchives = {
  write(of: BackupOf, content: AsyncIterable<Uint8Array>, options?: Options): Promise<StoredArchive>
  /**
   * Throws `DamagedArchive` at the end if it is not what `write` stored, and at once if there is none. With a `keyId`, only an
   * encrypted one counts, whatever the setting is now.
   */
  read(of: BackupOf, expected: Options & { sha256: string; keyId: string | null }): AsyncIterable<Uint8Array>
  /** Also removes what an interrupted `write` left. */
  remove(of: BackupOf): Promise<void>
  /** Removes every backup of a database, its WAL, and what interrupted writes have left. Returns how many objects there were. */
  removeDatabase(id: DatabaseId): Promise<number>
  /** Every backup of which anything is stored, complete or not. */
  existing(): Promise<BackupId[]>
}

const folder = 'backups/'
const suffix = '.tar.zst'
const folderOf = (id: DatabaseId) => `${folder}${id}/`
const plainName = ({ databaseId, backupId }: BackupOf) => `${folderOf(databaseId)}${backupId}${suffix}`
const encryptedName = (of: BackupOf) => `${plainName(of)}${encryptedSuffix}`

/** Archives that were written before they were sorted by database. */
const oldName = ({ backupId }: BackupOf) => `${backupId}${suffix}`

const namesOf = (of: BackupOf) => [encryptedName(of), plainName(of), oldName(of)]

const backupIn = (name: string): BackupId | null => {
  const id = basename(name).split('.')[0]!
  return isId('bak', id) ? id : null
}

type Deps = {
  /** New archives go here. */
  store: ArchiveStore
  /** Where archives were written earlier: the directory, if the store is a bucket now. */
  olderStores?: readonly ArchiveStore[]
  encryption: Encryption
  /** Whether new archives are encrypted. */
  encrypts: boolean
}

export function createBackupArchives({ store, olderStores = [], encryption, encrypts }: Deps): BackupArchives {
  // The directory first: it answers also while the bucket does not.
  const stores = [...olderStores, store]

  async function find(of: BackupOf, keyId: string | null): Promise<{ in: ArchiveStore; name: string }> {
    const names = keyId === null ? [plainName(of), oldName(of)] : [encryptedName(of)]
    for (const one of stores) {
      for (const name of names) if ((await one.head(name)) !== null) return { in: one, name }
    }
    throw new DamagedArchive('it is missing')
  }

  return {
    async write(of, content, options) {
      if (!encrypts) return { ...(await store.put(plainName(of), content, options)), keyId: null }
      const name = encryptedName(of)
      const stored = await store.put(name, encryption.encrypt(name, content), options)
      return { ...stored, keyId: encryption.currentKeyId }
    },
    async *read(of, { sha256, keyId, signal }) {
      const found = await find(of, keyId)
      const stored = verifyChecksum(found.in.get(found.name, signal ? { signal } : {}), sha256)
      yield* found.name.endsWith(encryptedSuffix) ? encryption.decrypt(found.name, stored) : stored
    },
    async remove(of) {
      for (const one of stores) for (const name of namesOf(of)) await one.remove(name)
    },
    async removeDatabase(id) {
      let count = 0
      for (const one of stores)
        for (const prefix of [folderOf(id), walFolder(id)]) count += await removeBelow(one, prefix)
      return count
    },
    async existing() {
      const ids = new Set<BackupId | null>()
      for (const one of stores) {
        for (const prefix of [folder, 'bak_']) {
          for await (const { name } of one.list(prefix)) ids.add(backupIn(name))
          for await (const name of one.unfinished(prefix)) ids.add(backupIn(name))
        }
      }
      return [...ids].filter((id) => id !== null)
    },
  }
}

/** Compares at the end: every archive matches its own manifest, only the stored checksum tells two archives apart. */
async function* verifyChecksum(archive: AsyncIterable<Uint8Array>, sha256: string): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  try {
    for await (const part of archive) {
      hash.update(part)
      yield part
    }
  } catch (error) {
    // Removed since it was found.
    throw error instanceof MissingObject ? new DamagedArchive('it is missing', error) : error
  }
  if (hash.digest('hex') !== sha256) throw new DamagedArchive('its checksum is not the stored one')
}

export type BackupOf = { databaseId: DatabaseId; backupId: BackupId }
