const pauseMsMinDefault = 100
const pauseMsMaxDefault = 2_000

export type RetryOptions = {
  /** The clock, as an argument. A pause that rejects ends the retrying. */
  pause(ms: number): Promise<void>
  /** Whether the same call may be accepted later. Any other error is thrown to the caller. */
  isTransient(error: unknown): boolean
  /** Called before each pause. It may repair the cause, or throw to give up. */
  onRetry?(error: unknown, pauseMs: number): void | Promise<void>
  /** Checked before every attempt. */
  signal?: AbortSignal
  pauseMsMin?: number
  pauseMsMax?: number
}

/** Repeats `work` until it succeeds, with pauses that double. `work` must be safe to run twice. */
export async function retryUntilAccepted<T>(options: RetryOptions, work: () => Promise<T>): Promise<T> {
  const { pauseMsMin = pauseMsMinDefault, pauseMsMax = pauseMsMaxDefault } = options
  for (let pauseMs = pauseMsMin; ; pauseMs = Math.min(pauseMsMax, pauseMs * 2)) {
    options.signal?.throwIfAborted()
    try {
      return await work()
    } catch (error) {
      if (!options.isTransient(error)) throw error
      await options.onRetry?.(error, pauseMs)
      await options.pause(pauseMs)
    }
  }
}
