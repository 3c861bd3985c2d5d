import { promisify } from 'node:util'
import { zstdCompress, zstdDecompress } from 'node:zlib'
import type { DatabaseId } from '../lib/ids.ts'
import { DamagedArchive } from '../lib/step-failure.ts'
import type { ArchiveStore } from './archive-store.ts'
import { type Encryption, encryptedSuffix } from './encryption.ts'

/** The size that initdb chooses; a cluster with another one is not archived. */
export const segmentBytes = 16 * 1024 * 1024
const segmentsPerFile = 2 ** 32 / segmentBytes

const segmentName = /^[0-9A-F]{8}([0-9A-F]{8})([0-9A-F]{8})$/
const historyName = /^[0-9A-F]{8}\.history$/

export const isHistory = (name: string): boolean => historyName.test(name)

/** The number of a segment, whatever its timeline; null if the name is not that of a segment. */
export function positionOf(name: string): number | null {
  const [, file, segment] = segmentName.exec(name) ?? []
  return file === undefined ? null : Number.parseInt(file, 16) * segmentsPerFile + Number.parseInt(segment!, 16)
}

/** The number of the segment that has this position of the WAL, such as `0/1B81000`. */
export function segmentOf(lsn: string): number {
  const [high, low] = lsn.split('/').map((part) => Number.parseInt(part, 16)) as [number, number]
  return high * segmentsPerFile + Math.floor(low / segmentBytes)
}

/** The number of the first segment that begins at or after this position. */
export const segmentAfter = (lsn: string): number => segmentOf(lsn) + (lsnOf(segmentOf(lsn)) === lsn ? 0 : 1)

export const segmentNamed = (timeline: string, position: number): string =>
  timeline + hex(Math.floor(position / segmentsPerFile)) + hex(position % segmentsPerFile)

/** Where a segment begins. */
export const lsnOf = (position: number): string =>
  `${Math.floor(position / segmentsPerFile)
    .toString(16)
    .toUpperCase()}/${((position % segmentsPerFile) * segmentBytes).toString(16).toUpperCase()}`

/** `end` is not in it. One at a time: a hostile server may claim any position. */
export function* positionsBetween(first: number, end: number): Generator<number> {
  for (let position = first; position < end; position++) yield position
}

const hex = (value: number): string => value.toString(16).toUpperCase().padStart(8, '0')

const [compress, decompress] = [promisify(zstdCompress), promisify(zstdDecompress)]

/** The WAL of databases in a store. */
export type WalArchive = {
  /** Whether files of a database are encrypted, of which earlier ones are or are not. Once they are, they stay so. */
  encrypts(earlier: boolean): boolean
  /** A file that exists is compared and never replaced. Returns the bytes that were added. */
  write(
    id: DatabaseId,
    name: string,
    content: Buffer,
    options: { isEncrypted: boolean; signal: AbortSignal },
  ): Promise<number>
  /**
   * What follows a backup that ended at `from`, up to `until`. Throws `DamagedArchive` if anything in between is missing, or is not
   * encrypted and should be.
   */
  between(id: DatabaseId, range: Omit<WalRange, 'committed'>): Promise<WalFile[]>
  /** Removes the segments before this position; null: everything. */
  removeBefore(id: DatabaseId, lsn: string | null): Promise<void>
}

const suffix = '.zst'

/** zstd adds a few bytes to what it cannot compress. */
const packedBytesMax = segmentBytes + 1024 * 1024
export const walFolder = (id: DatabaseId): string => `wal/${id}/`
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
    let bytes = 0
    const stored = store.get(object)
    for await (const part of isEncrypted(object) ? encryption.decrypt(object, stored) : stored) {
      bytes += part.length
      if (bytes > packedBytesMax) throw new DamagedArchive(`${nameIn(object)} is too large`)
      parts.push(part)
    }
    // No file of WAL is larger than a segment. Without a limit, 62 KB can become 2 GB in memory.
    return decompress(Buffer.concat(parts), { maxOutputLength: segmentBytes }).catch((error) => {
      throw new DamagedArchive(`${nameIn(object)} cannot be unpacked`, error)
    })
  }

  return {
    encrypts: (earlier) => deps.encrypts || earlier,

    async write(id, name, content, { isEncrypted: encrypts, signal }) {
      const object = `${walFolder(id)}${name}${suffix}${encrypts ? encryptedSuffix : ''}`
      if ((await store.head(object)) !== null) {
        // An earlier attempt stored it and could not record that. Anything else means two servers under one id.
        if ((await read(object)).equals(content)) return 0
        throw new Error(`${object} is stored already, with other content`)
      }
      const packed = once(await compress(content))
      const stored = await store.put(object, encrypts ? encryption.encrypt(object, packed) : packed, { signal })
      return stored.bytes
    },

    async between(id, { from, until, encryptedFrom }) {
      const files = new Map<string, WalFile>()
      const found = new Set<number>()
      const mayBePlain = (position: number | null): boolean =>
        encryptedFrom === null || (position !== null && position < segmentOf(encryptedFrom))
      // The archive of the backup has the segment that it ended in.
      const [first, end] = [segmentAfter(from), segmentAfter(until)]
      for await (const { name: object } of store.list(walFolder(id))) {
        const name = nameIn(object)
        const position = positionOf(name)
        if (position === null ? !isHistory(name) : position < first || position >= end) continue
        if (!isEncrypted(object) && !mayBePlain(position)) continue
        if (position !== null) found.add(position)
        // Of two objects of one name the encrypted one comes last and counts: nobody else can make it.
        files.set(name, { name, read: () => read(object) })
      }
      if (positionsBetween(first, end).some((position) => !found.has(position)))
        throw new DamagedArchive('a part of the write-ahead log after the backup is missing')
      return [...files.values()]
    },

    async removeBefore(id, lsn) {
      const first = lsn === null ? Number.POSITIVE_INFINITY : segmentOf(lsn)
      for await (const { name: object } of store.list(walFolder(id))) {
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

/**
 * Stored WAL to replay. A replay that ends before `committed` has lost commits. What begins at `encryptedFrom` or later is
 * encrypted; null: nothing is.
 */
export type WalRange = { from: string; until: string; committed: string; encryptedFrom: string | null }

export type WalFile = { name: string; read(): Promise<Buffer> }
