import type { DatabaseId } from '../kernel/ids.ts'

/** Where clients reach an instance. */
export type Address = { host: string; port: number }

export type Progress = (bytes: { bytesDone: number; bytesTotal: number }) => void

/**
 * Whoever makes databases real: this machine, or an orchestrator. The steps call nothing else.
 *
 * Everything here may be called twice and ends in the same state; a call that was cut off by a crash is finished by the
 * next one. An `AbortSignal` that fires means that the outcome is no longer wanted: give up at once, whatever it is that is
 * waited for, and tidy up later: whoever removes the database waits for that.
 * Calls for one database never overlap; calls for different ones may.
 */
export type DatabaseDriver = {
  /** Does ahead of time what the first database would have to wait for. Nobody depends on it. */
  prepare(): Promise<void>
  /** Makes an empty instance, and answers when it accepts connections with the password behind the verifier. */
  provision(id: DatabaseId, options: { passwordVerifier: string; signal: AbortSignal }): Promise<Address>
  /**
   * The same from an archive that `backup` made of whatever instance. All that was committed when that backup ended is
   * there; the only password is the new one, from the first connection on. A damaged archive throws `DamagedArchive`.
   */
  restore(
    id: DatabaseId,
    options: {
      archive: AsyncIterable<Uint8Array>
      passwordVerifier: string
      onProgress: (bytesDone: number) => void
      signal: AbortSignal
    },
  ): Promise<Address>
  /** The instance as a stream of archive bytes, taken while clients go on writing. */
  backup(id: DatabaseId, options: { onProgress: Progress; signal: AbortSignal }): AsyncIterable<Uint8Array>
  /** Ends the instance and everything that it kept. Nothing to do where there is nothing. */
  remove(id: DatabaseId): Promise<void>
  /** Every instance of which anything exists, whole or in part. */
  existing(): Promise<DatabaseId[]>
  /** Runs an instance that was provisioned earlier, and goes on running it whatever happens to it. */
  resume(id: DatabaseId, options: { signal: AbortSignal }): Promise<void>
  /** Lets go of everything in an orderly way; the instances can be resumed later. */
  close(): Promise<void>
}

/** A failure that its owner may read; the cause is for the log. `lasting`: another attempt would end the same way. */
export class StepFailure extends Error {
  readonly lasting: boolean
  constructor(reason: string, options: { cause?: unknown; lasting?: boolean } = {}) {
    super(reason, { cause: options.cause })
    this.name = 'StepFailure'
    this.lasting = options.lasting ?? false
  }
}

export class DamagedArchive extends StepFailure {
  constructor(detail: string, cause?: unknown) {
    super(`The archive is damaged: ${detail}.`, { cause, lasting: true })
    this.name = 'DamagedArchive'
  }
}
