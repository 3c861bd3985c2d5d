import type { BackupOf } from '../../archives/backup-archives.ts'
import type { WalRange } from '../../archives/wal-archive.ts'
import type { BackupId, DatabaseId, OrgId } from '../../lib/ids.ts'

/** Where clients connect to a database. */
export type Address = { host: string; port: number }

export type Progress = (bytes: { bytesDone: number; bytesTotal: number }) => void

/**
 * Runs the customers' databases and keeps their backups: on this machine (`local/`), or through CloudNativePG (`kubernetes/`).
 *
 * Every call may be repeated and ends in the same state; a call that a crash interrupted is completed by the next one. When
 * the `AbortSignal` fires the call ends at once, and what it created is cleaned up by `remove` or `removeBackup`.
 * In one process, calls for one database never overlap, except `archiveWal`; calls for different ones may.
 */
export type DatabaseDriver = {
  /** Creates an empty database, and returns when it accepts connections with the password of the verifier. */
  provision(id: DatabaseId, options: NewDatabase): Promise<Address>
  /**
   * The same from a backup, with everything that was committed when that backup ended; with `to`, everything that was committed by
   * then. Only the new password works. Throws a permanent `StepFailure` if the backup is damaged, gone or larger than `bytesMax`.
   */
  restore(
    id: DatabaseId,
    options: NewDatabase & {
      from: BackupOf & { sha256: string | null; keyId: string | null }
      to: Date | null
      bytesMax: number
      onProgress: (bytesDone: number) => void
    },
  ): Promise<Address>
  /** Removes the database and everything that belongs to it, except its backups and archived WAL. */
  remove(id: DatabaseId): Promise<void>
  /** Every database of which anything exists. */
  existing(): Promise<DatabaseId[]>
  /** After a start of Keyhook: makes a database available that was provisioned earlier. */
  resume(id: DatabaseId, options: { signal: AbortSignal }): Promise<Address>
  /** Returns when the backup is stored, while clients go on writing. Throws a permanent `StepFailure` beyond `bytesMax`. */
  backup(of: BackupOf, options: { bytesMax: number; onProgress: Progress; signal: AbortSignal }): Promise<StoredBackup>
  removeBackup(of: BackupOf): Promise<void>
  /** Every backup of which anything is stored, complete or not. */
  existingBackups(): Promise<BackupId[]>
  /**
   * Has the WAL of the database stored, so that `restore` can replay it. `bytes`: what this call added to the store.
   * `isEncrypted`: whether what was stored earlier is encrypted, and what this call has stored.
   */
  archiveWal(
    id: DatabaseId,
    options: { after: string | null; isEncrypted: boolean; signal: AbortSignal },
  ): Promise<ArchivedWal & { bytes: number; isEncrypted: boolean }>
  /** Removes the stored WAL before this position; null: everything. */
  removeWal(id: DatabaseId, before: string | null): Promise<void>
  /** Null if databases are not on the disk of one node. */
  moving: Moving | null
  close(): Promise<void>
}

/** How a database goes from one node to another: closed here, its WAL stored to the end, restored there. */
export type Moving = {
  /** Ends all sessions of clients and accepts no more, until `openToClients`. Starts the database if it does not run. */
  closeToClients(id: DatabaseId, options: { signal: AbortSignal }): Promise<void>
  openToClients(id: DatabaseId, options: { signal: AbortSignal }): Promise<void>
  /** Restores it with all of its WAL and its own password, on a timeline of its own. */
  restoreAll(
    id: DatabaseId,
    options: {
      from: BackupOf & { sha256: string; keyId: string | null }
      wal: WalRange
      signal: AbortSignal
    },
  ): Promise<Address>
}

export type NewDatabase = { orgId: OrgId; passwordVerifier: string; signal: AbortSignal }

type StoredBackup = {
  bytes: number
  /** Null if whoever keeps the backup checks it by means of its own. */
  sha256: string | null
  /** The master key that it is encrypted under, or null. */
  keyId: string | null
  /** The size of the database's files. */
  contentBytes: number
  wal: { start_lsn: string; stop_lsn: string; stopped_at: string | null }
}

/** `until` is the position up to which everything is stored; whatever was committed before `at` is before `committed`, and in it. */
export type ArchivedWal = {
  /** The archive starts here: there was none, or a part before this position is lost. Null: it follows `after`. */
  from: string | null
  until: string
  committed: string
  at: Date
}
