import type { WalFile } from '../../archives/wal-archive.ts'
import type { DatabaseId } from '../../lib/ids.ts'
import type { CertificateSource } from '../certificates.ts'
import type { Address, ArchivedWal, Progress } from './driver.ts'

/** What a running instance says about itself. */
export type Activity = { sizeBytes: number; connections: number; connectionsMax: number }

/**
 * PostgreSQL servers of this machine, one for each database, and what only their own machine can do with them. The local driver is
 * built on it. The rules of `DatabaseDriver` hold here as well.
 */
export type LocalInstances = {
  /** Prepares what the first database would have to wait for. Optional. */
  prepare(): Promise<void>
  /** From now on, databases that start accept TLS, with this certificate. */
  useCertificates(source: CertificateSource): void
  /** Creates an empty instance, and returns when it accepts connections with the password of the verifier. */
  provision(id: DatabaseId, options: { passwordVerifier: string; signal: AbortSignal }): Promise<Address>
  /**
   * The same from an archive of `backup`, with everything that was committed when that backup ended. Only the new password
   * works, from the first connection on. Throws `DamagedArchive` if the archive does not match its checksums.
   */
  restore(
    id: DatabaseId,
    options: {
      archive: AsyncIterable<Uint8Array>
      /**
       * Replayed after the archive, up to the last commit that is not later than `to`; null: to the end. Fails if the replay ends
       * before `committed` without having reached that time.
       */
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
  /** Stops the instance and removes its files, if there are any. */
  remove(id: DatabaseId): Promise<void>
  /** Every instance of which any file exists. */
  existing(): Promise<DatabaseId[]>
  /** Starts an instance that was provisioned earlier, and restarts it whenever it ends. */
  resume(id: DatabaseId, options: { signal: AbortSignal }): Promise<Address>
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
  /** Ends all sessions of clients and accepts no more, also after `resume`, until `openToClients`. Starts it if it does not run. */
  closeToClients(id: DatabaseId, options: { signal: AbortSignal }): Promise<void>
  openToClients(id: DatabaseId, options: { signal: AbortSignal }): Promise<void>
  /** Stops all instances; they can be resumed later. */
  close(): Promise<void>
}

export type ArchiveWalOptions = {
  /** How far it was archived; null: not at all. */
  after: string | null
  store(name: string, content: Buffer): Promise<void>
  signal: AbortSignal
}
