import type { Clock } from '../../src/lib/clock.ts'

/** A process: its timers run only while it lives, and not while it is paused. */
export type Host = { name: string; alive: boolean; stopped: boolean; pausedUntilMs: number; clockSkewMs: number }

type Planned = { atMs: number; order: number; host: Host | null; run: (() => void) | null }

const stepsAtOnceMax = 100_000

export type Timeline = ReturnType<typeof createTimeline>

/** Simulated time: it jumps from one step to the next. */
export function createTimeline(startMs: number) {
  const heap: Planned[] = []
  let nowMs = startMs
  let order = 0

  const isBefore = (a: Planned, b: Planned) => a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order)

  function push(one: Planned): void {
    let at = heap.push(one) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (isBefore(heap[parent]!, one)) break
      heap[at] = heap[parent]!
      at = parent
    }
    heap[at] = one
  }

  function pop(): Planned | undefined {
    const first = heap[0]
    const last = heap.pop()
    if (heap.length === 0 || last === undefined) return first
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child += 1
      if (isBefore(last, heap[child]!)) break
      heap[at] = heap[child]!
      at = child
    }
    heap[at] = last
    return first
  }

  /** Returns a function that cancels it. */
  function after(ms: number, run: () => void, host: Host | null = null): () => void {
    const planned: Planned = { atMs: nowMs + Math.max(0, ms), order: order++, host, run }
    push(planned)
    return () => {
      planned.run = null
    }
  }

  return {
    now: () => nowMs,
    after,
    clockOf: (host: Host): Clock => ({
      now: () => Math.floor(nowMs) + host.clockSkewMs,
      soon: (run) => void after(0, run, host),
      after: (ms, run) => after(ms, run, host),
    }),
    /** Runs until `isOver`, or no step is left, or that much simulated time has passed. */
    async run(isOver: () => boolean, msMax: number): Promise<boolean> {
      const endMs = nowMs + msMax
      let stepsAtOnce = 0
      while (!isOver()) {
        const planned = pop()
        if (planned === undefined) return false
        if (planned.atMs > endMs) {
          push(planned)
          nowMs = endMs
          return false
        }
        const { host, run } = planned
        if (run === null || host?.alive === false) continue
        stepsAtOnce = planned.atMs > nowMs ? 0 : stepsAtOnce + 1
        if (stepsAtOnce > stepsAtOnceMax) throw new Error('steps are repeated without end, and no time passes')
        nowMs = Math.max(nowMs, planned.atMs)
        if (host !== null && host.pausedUntilMs > nowMs) {
          // The same object, so that it can still be cancelled.
          push(Object.assign(planned, { atMs: host.pausedUntilMs, order: order++ }))
          continue
        }
        run()
        // Everything that follows by promises, without time passing.
        await new Promise((done) => setImmediate(done))
      }
      return true
    },
  }
}
