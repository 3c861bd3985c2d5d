import type { BackupOf } from '../../archives/backup-archives.ts'
import type { WalFile, WalRange } from '../../archives/wal-archive.ts'
import type { BackupId, DatabaseId, OrgId } from '../../lib/ids.ts'
import type { CertificateSource } from '../certificates.ts'

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
  /** From a backup, replayed until `to`. Only the new password works. A backup that is damaged, gone or too large is a permanent `StepFailure`. */
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
  /** So that `restore` can replay it. `bytes`: what this call added. `isEncrypted`: what was stored earlier, and what this call has stored. */
  archiveWal(
    id: DatabaseId,
    options: { after: string | null; isEncrypted: boolean; signal: AbortSignal },
  ): Promise<ArchivedWal & { bytes: number; isEncrypted: boolean }>
  /** Removes the stored WAL before this position; null: everything. */
  removeWal(id: DatabaseId, before: string | null): Promise<void>
  /**
   * Removes the database, its WAL and every backup of it, also those that the caller does not know, and what was interrupted. Nothing
   * stores WAL meanwhile. Returns how many stored objects there were.
   */
  erase(id: DatabaseId, backups: readonly BackupId[]): Promise<number>
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

/** What a running instance says about itself. */
export type Activity = { sizeBytes: number; connections: number; connectionsMax: number }

/**
 * PostgreSQL servers of this machine, one for each database, and what only their own machine can do with them. The local driver is
 * built on it. The rules of `DatabaseDriver` hold here as well. `resume` starts a server and restarts it whenever it ends, `close` stops
 * all of them, and one that is closed to clients stays so after `resume`.
 */
export type LocalInstances = Pick<DatabaseDriver, 'remove' | 'existing' | 'resume' | 'close'> &
  Pick<Moving, 'closeToClients' | 'openToClients'> & {
    /** Prepares what the first database would have to wait for. Optional. */
    prepare(): Promise<void>
    /** From now on, databases that start accept TLS, with this certificate. */
    useCertificates(source: CertificateSource): void
    /** Creates an empty instance, and returns when it accepts connections with the password of the verifier. */
    provision(id: DatabaseId, options: { passwordVerifier: string; signal: AbortSignal }): Promise<Address>
    /** The same from an archive of `backup`. Only the new password works, from the first connection on. Throws `DamagedArchive`. */
    restore(
      id: DatabaseId,
      options: {
        archive: AsyncIterable<Uint8Array>
        /** Replayed up to the last commit that is not later than `to`; null: to the end. Fails if it ends before `committed` and that time. */
        wal?: { files: readonly WalFile[]; to: Date | null; committed: string }
        /** Null: the password stays as it is in the archive. */
        passwordVerifier: string | null
        /** Of the archive's files. More of them is `tooLarge`. */
        bytesMax: number
        onProgress: (bytesDone: number) => void
        signal: AbortSignal
      },
    ): Promise<Address>
    /** The instance as a stream of archive bytes, while clients go on writing. More than `bytesMax` in its files is `tooLarge`. */
    backup(
      id: DatabaseId,
      options: { bytesMax: number; onProgress: Progress; signal: AbortSignal },
    ): AsyncIterable<Uint8Array>
    /** Stores the WAL of the instance, so that `restore` can replay it. May run beside `backup`. */
    archiveWal(id: DatabaseId, options: ArchiveWalOptions): Promise<ArchivedWal>
    /** Why another account of this machine could answer clients from the port of an instance; null if none can. */
    portProblem(): Promise<string | null>
    /** What a running instance says about itself. */
    activity(id: DatabaseId, options: { signal: AbortSignal }): Promise<Activity>
    /** A directory on the disk that has the files of all instances. */
    disk(): Promise<string>
    /** Bytes on disk of every instance of which any file exists. */
    storage(signal: AbortSignal): Promise<Map<DatabaseId, number>>
    /** Whether it accepts connections now, as far as is known. */
    isRunning(id: DatabaseId): boolean
    /** All that accept connections, and those that are held: their storage says why they do not. */
    up(): DatabaseId[]
    /** New transactions are read-only unless they ask for more, and open ones end. The reason is shown to sessions; null ends it. */
    setReadOnly(id: DatabaseId, reason: string | null, options: { signal: AbortSignal }): Promise<void>
    /** Ends what the instance keeps until its next checkpoint, such as old WAL. */
    checkpoint(id: DatabaseId, options: { signal: AbortSignal }): Promise<void>
    /** Stops the instance at once. Nothing starts it until `release`, also not `resume`. It may overlap with every other call. */
    hold(id: DatabaseId): Promise<void>
    isHeld(id: DatabaseId): boolean
    /** Starts an instance that was held. */
    release(id: DatabaseId, options: { signal: AbortSignal }): Promise<void>
  }

export type ArchiveWalOptions = {
  /** How far it was archived; null: not at all. */
  after: string | null
  store(name: string, content: Buffer): Promise<void>
  signal: AbortSignal
}
