import type { Clock } from './clock.ts'

/**
 * Does work in groups: while one group is being written the next one gathers, so that groups are small when there is
 * little to do and large when there is much, with no timer that anybody waits for.
 */
export type Group<T> = {
  add(item: T): void
  /** Resolves when everything that was added has been written. */
  settled(): Promise<void>
}

export function createGroup<T>(deps: {
  clock: Clock
  sizeMax: number
  /** Groups that are written at the same time. */
  atOnceMax: number
  /** For what nobody waits for: a group smaller than `size` gathers for so long before it is written. */
  gather?: { ms: number; size: number }
  run(items: T[]): Promise<void>
}): Group<T> {
  let waiting: T[] = []
  let running = 0
  let scheduled = false
  let gathering: (() => void) | null = null
  let idle: (() => void)[] = []

  function schedule(): void {
    if (scheduled || running >= deps.atOnceMax || waiting.length === 0) return
    if (deps.gather !== undefined && waiting.length < deps.gather.size) {
      gathering ??= deps.clock.after(deps.gather.ms, startSoon)
    } else startSoon()
  }

  function startSoon(): void {
    gathering?.()
    gathering = null
    scheduled = true
    deps.clock.soon(() => {
      scheduled = false
      void start()
    })
  }

  async function start(): Promise<void> {
    if (running >= deps.atOnceMax || waiting.length === 0) return
    const items = waiting.length <= deps.sizeMax ? waiting : waiting.slice(0, deps.sizeMax)
    waiting = waiting.length <= deps.sizeMax ? [] : waiting.slice(deps.sizeMax)
    running += 1
    schedule()
    try {
      await deps.run(items)
    } finally {
      running -= 1
      schedule()
      if (running === 0 && waiting.length === 0) {
        for (const done of idle) done()
        idle = []
      }
    }
  }

  return {
    add(item) {
      waiting.push(item)
      schedule()
    },
    settled: () =>
      running === 0 && waiting.length === 0 ? Promise.resolve() : new Promise((done) => void idle.push(done)),
  }
}
