import type { Clock } from './clock.ts'

/**
 * Does work in batches: while one batch is being written the next one gathers. So batches are small when there is little to do and
 * large when there is much, and nothing waits for a timer.
 */
export type Batcher<T> = {
  add(item: T): void
  /** Resolves when everything that was added has been done. */
  idle(): Promise<void>
}

export function createBatcher<T>(deps: {
  clock: Clock
  sizeMax: number
  concurrencyMax: number
  /** For work that nothing waits for: a batch below `size` gathers for that long first. */
  gather?: { ms: number; size: number }
  run(items: T[]): Promise<void>
}): Batcher<T> {
  let waiting: T[] = []
  let running = 0
  let scheduled = false
  let cancelGather: (() => void) | null = null
  const whenIdle: (() => void)[] = []

  function schedule(): void {
    if (scheduled || running >= deps.concurrencyMax || waiting.length === 0) return
    if (deps.gather !== undefined && waiting.length < deps.gather.size) {
      cancelGather ??= deps.clock.after(deps.gather.ms, startSoon)
    } else startSoon()
  }

  function startSoon(): void {
    cancelGather?.()
    cancelGather = null
    scheduled = true
    deps.clock.soon(() => {
      scheduled = false
      void start()
    })
  }

  async function start(): Promise<void> {
    if (running >= deps.concurrencyMax || waiting.length === 0) return
    const items = waiting.slice(0, deps.sizeMax)
    waiting = waiting.slice(deps.sizeMax)
    running += 1
    schedule()
    try {
      await deps.run(items)
    } finally {
      running -= 1
      schedule()
      if (running === 0 && waiting.length === 0) for (const done of whenIdle.splice(0)) done()
    }
  }

  return {
    add(item) {
      waiting.push(item)
      schedule()
    },
    idle: () =>
      running === 0 && waiting.length === 0 ? Promise.resolve() : new Promise((done) => void whenIdle.push(done)),
  }
}

/**
 * Writes a batch. One that is rejected is halved until what causes it is alone. `onFailed` gets that one, or a batch that failed for
 * another reason; if it throws, the other half is not written.
 */
export async function writeOrHalve<T>(
  batch: readonly T[],
  how: {
    write(part: readonly T[]): Promise<void>
    isRejected(error: unknown): boolean
    onFailed(part: readonly T[], error: unknown): void
  },
): Promise<void> {
  try {
    return await how.write(batch)
  } catch (error) {
    if (batch.length === 1 || !how.isRejected(error)) return how.onFailed(batch, error)
  }
  const middle = batch.length >> 1
  await writeOrHalve(batch.slice(0, middle), how)
  await writeOrHalve(batch.slice(middle), how)
}
