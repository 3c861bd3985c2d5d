import type { BackupId } from '../../kernel/ids.ts'

/** Stores archives on this machine's disk, or in a bucket. An archive is stored completely or not at all. */
export type ArchiveStore = {
  write(id: BackupId, content: AsyncIterable<Uint8Array>): Promise<StoredArchive>
  /** Throws `DamagedArchive` if there is none. */
  read(id: BackupId): AsyncIterable<Uint8Array>
  /** Also removes what an interrupted `write` left. */
  remove(id: BackupId): Promise<void>
  /** Every archive of which any file exists, complete or not. */
  existing(): Promise<BackupId[]>
}

export type StoredArchive = { bytes: number; sha256: string }
