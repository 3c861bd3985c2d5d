/** Time as the engine sees it: an argument, so that a simulation can run a day in a second. */
export type Clock = {
  now(): number
  /** Runs it after everything that is ready now. */
  soon(run: () => void): void
  /** The function it returns takes it back. */
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

/** Waits for the work, but no longer than this. No timer is left behind: it would keep the process from ending. */
export async function within(clock: Clock, ms: number, work: Promise<unknown>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const cancel = clock.after(ms, resolve)
  try {
    await Promise.race([work, promise])
  } finally {
    cancel()
  }
}

export const pause = (clock: Clock, ms: number): Promise<void> =>
  new Promise((done) => void clock.after(ms, () => done()))
