/** Time as the engine sees it: an argument, so that a simulation can run a day in a second. */
export type Clock = {
  now(): number
  /** Runs it after everything that is ready now. */
  soon(run: () => void): void
  /** Returns a function that cancels it. */
  after(ms: number, run: () => void): () => void
}

export const systemClock: Clock = {
  now: () => Date.now(),
  soon: (run) => void setImmediate(run),
  after(ms, run) {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
}

export const pause = (clock: Clock, ms: number): Promise<void> =>
  new Promise((done) => void clock.after(ms, () => done()))

/** Waits for the work, but no longer than this. */
export async function within(clock: Clock, ms: number, work: Promise<unknown>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const cancel = clock.after(ms, resolve)
  try {
    await Promise.race([work, promise])
  } finally {
    cancel()
  }
}

/** Work that is repeated, with this pause after each run. */
export function createTimers(clock: Clock, onError: (error: unknown) => void) {
  const cancels = new Set<() => void>()
  let stopped = false
  return {
    every(ms: number, work: () => Promise<void> | void): void {
      let cancel = () => {}
      const again = () => {
        cancel = clock.after(ms, async () => {
          try {
            await work()
          } catch (error) {
            onError(error)
          }
          if (!stopped) again()
        })
      }
      again()
      cancels.add(() => cancel())
    },
    stop(): void {
      stopped = true
      for (const cancel of cancels) cancel()
    },
  }
}

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
