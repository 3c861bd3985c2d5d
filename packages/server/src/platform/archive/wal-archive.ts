import { promisify } from 'node:util'
import { zstdCompress, zstdDecompress } from 'node:zlib'
import type { DatabaseId } from '../../kernel/ids.ts'
import { DamagedArchive } from '../driver.ts'
import type { WalFile } from '../local-instances.ts'
import { isHistory, positionOf, positionsBetween, segmentAfter, segmentOf } from '../wal-names.ts'
import type { ArchiveStore } from './archive-store.ts'
import { type Encryption, encryptedSuffix } from './encryption.ts'

const [compress, decompress] = [promisify(zstdCompress), promisify(zstdDecompress)]

/** The WAL of databases in a store: by database, because all instances have the same system identifier. */
export type WalArchive = {
  /** A file that exists is compared and never replaced. Returns the bytes that were added. */
  write(id: DatabaseId, name: string, content: Buffer, options: { signal: AbortSignal }): Promise<number>
  /** What follows a backup that ended at `from`, up to `until`. Throws `DamagedArchive` if anything in between is missing. */
  between(id: DatabaseId, range: { from: string; until: string }): Promise<WalFile[]>
  /** Removes the segments before this position; null: everything. */
  removeBefore(id: DatabaseId, lsn: string | null): Promise<void>
}

const suffix = '.zst'
const prefixOf = (id: DatabaseId): string => `wal/${id}/`
/** Encrypted or not, whatever the setting is now. */
const isEncrypted = (object: string): boolean => object.endsWith(encryptedSuffix)
const nameIn = (object: string): string => {
  const file = object.slice(object.lastIndexOf('/') + 1)
  return file.slice(0, file.indexOf(suffix))
}

export function createWalArchive(deps: {
  store: ArchiveStore
  encryption: Encryption
  /** Whether new files are encrypted. */
  encrypts: boolean
}): WalArchive {
  const { store, encryption } = deps

  const read = async (object: string): Promise<Buffer> => {
    const parts: Uint8Array[] = []
    const stored = store.get(object)
    for await (const part of isEncrypted(object) ? encryption.decrypt(object, stored) : stored) parts.push(part)
    return decompress(Buffer.concat(parts)).catch((error) => {
      throw new DamagedArchive(`${nameIn(object)} cannot be unpacked`, error)
    })
  }

  return {
    async write(id, name, content, options) {
      const plain = `${prefixOf(id)}${name}${suffix}`
      const encrypted = `${plain}${encryptedSuffix}`
      for (const object of [encrypted, plain]) {
        if ((await store.head(object)) === null) continue
        // An earlier attempt stored it and could not record that. Anything else means two servers under one id.
        if ((await read(object)).equals(content)) return 0
        throw new Error(`${object} is stored already, with other content`)
      }
      const packed = once(await compress(content))
      const stored = deps.encrypts
        ? await store.put(encrypted, encryption.encrypt(encrypted, packed), options)
        : await store.put(plain, packed, options)
      return stored.bytes
    },

    async between(id, { from, until }) {
      const files: WalFile[] = []
      const found = new Set<number>()
      // The archive of the backup has the segment that it ended in.
      const [first, end] = [segmentAfter(from), segmentAfter(until)]
      for await (const { name: object } of store.list(prefixOf(id))) {
        const name = nameIn(object)
        const position = positionOf(name)
        if (position === null ? !isHistory(name) : position < first || position >= end) continue
        if (position !== null) found.add(position)
        files.push({ name, read: () => read(object) })
      }
      if (positionsBetween(first, end).some((position) => !found.has(position)))
        throw new DamagedArchive('a part of the log after the backup is missing')
      return files
    },

    async removeBefore(id, lsn) {
      const first = lsn === null ? Number.POSITIVE_INFINITY : segmentOf(lsn)
      for await (const { name: object } of store.list(prefixOf(id))) {
        const position = positionOf(nameIn(object))
        // Histories are small, and later timelines refer to them.
        if (position === null ? lsn === null : position < first) await store.remove(object)
      }
    },
  }
}

async function* once(content: Uint8Array): AsyncGenerator<Uint8Array> {
  yield content
}
