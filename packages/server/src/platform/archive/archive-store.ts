import type { BackupId } from '../../kernel/ids.ts'

/**
 * Where archives are kept: this machine's disk, or a bucket. An archive is written whole or not at all; nobody ever
 * reads half of one.
 */
export type ArchiveStore = {
  write(id: BackupId, content: AsyncIterable<Uint8Array>): Promise<StoredArchive>
  /** Throws `DamagedArchive` where there is none. */
  read(id: BackupId): AsyncIterable<Uint8Array>
  /** Nothing to do where there is nothing. Also ends what an interrupted `write` left. */
  remove(id: BackupId): Promise<void>
  /** Every archive of which anything exists, whole or in part. */
  existing(): Promise<BackupId[]>
}

export type StoredArchive = { bytes: number; sha256: string }
