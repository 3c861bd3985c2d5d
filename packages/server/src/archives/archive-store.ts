import { StepFailure } from '../lib/step-failure.ts'

/**
 * Named objects on this machine's disk, or in a bucket. Names have parts between slashes, for example
 * `backups/db_…/bak_….tar.zst`. An object is stored completely or not at all.
 */
export type ArchiveStore = {
  /** Replaces an object of that name once all of the content has arrived. What an earlier, interrupted `put` left is removed. */
  put(name: string, content: AsyncIterable<Uint8Array>, options?: { signal?: AbortSignal }): Promise<StoredObject>
  /** Throws `MissingObject` if there is none. */
  get(name: string, options?: { signal?: AbortSignal }): AsyncIterable<Uint8Array>
  head(name: string): Promise<{ bytes: number } | null>
  /** The complete objects whose names start with the prefix, in the order of their names. */
  list(prefix: string): AsyncIterable<{ name: string; bytes: number }>
  /** The names of objects that a `put` left unfinished: it runs now, or its process was killed. */
  unfinished(prefix: string): AsyncIterable<string>
  /** Also removes what an interrupted `put` left. No object of that name is no error. */
  remove(name: string): Promise<void>
}

/** Also what is unfinished. Returns how many objects there were. */
export async function removeBelow(store: ArchiveStore, prefix: string): Promise<number> {
  const names = new Set<string>()
  for await (const { name } of store.list(prefix)) names.add(name)
  for await (const name of store.unfinished(prefix)) names.add(name)
  for (const name of names) await store.remove(name)
  return names.size
}

/** The checksum is of the bytes that were sent; only reading them back shows what is stored. */
export type StoredObject = { bytes: number; sha256: string }

export class MissingObject extends Error {
  override readonly name = 'MissingObject'
  constructor(object: string, options: { cause?: unknown } = {}) {
    super(`${object} is not in the store`, options)
  }
}

/** The customer reads the message, the operator the cause, which says what to do. */
export class StoreFailure extends StepFailure {
  constructor(operatorText: string, options: { cause?: unknown } = {}) {
    super('The store of backups cannot be used now.', { cause: new Error(operatorText, options) })
    this.name = 'StoreFailure'
  }
}

const namePattern = /^[A-Za-z0-9_][A-Za-z0-9_.-]*(\/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$/

/** No part starts with a dot, so no name leads out of a directory. */
export const isName = (name: string): boolean => name.length <= 500 && namePattern.test(name)

export function checkName(name: string): void {
  if (!isName(name)) throw new Error(`not a name of an object: ${name}`)
}

/** The last entry of an archive: where it comes from, and the SHA-256 of each file. */
export const manifestPath = 'keyhook-manifest.json'

export type Manifest = {
  format: 1
  database_id: string
  postgres_version: string
  /** The archive contains the WAL between the two positions. Replaying it makes the files consistent. */
  start_lsn: string
  stop_lsn: string
  /** When it ended, by the clock of the database. */
  stopped_at?: string
  files: { path: string; bytes: number; sha256: string }[]
}

export const encodeManifest = (manifest: Manifest): Buffer => Buffer.from(`${JSON.stringify(manifest)}\n`)

export function decodeManifest(text: string): Manifest | null {
  try {
    const manifest = JSON.parse(text) as Manifest
    return manifest.format === 1 && Array.isArray(manifest.files) ? manifest : null
  } catch {
    return null
  }
}
