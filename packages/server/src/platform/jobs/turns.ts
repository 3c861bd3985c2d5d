/**
 * Work on one thing takes turns; work on different things does not wait. Whoever has a turn, or waits for one, can be
 * told that it is no longer wanted.
 */
export type Turns = {
  take<T>(key: string, work: (signal: AbortSignal) => Promise<T>): Promise<T>
  interrupt(key: string, reason: Error): void
  /** Interrupts everybody, and whoever comes later. */
  end(reason: Error): void
}

export function createTurns(): Turns {
  const lanes = new Map<string, { last: Promise<unknown>; inside: Set<AbortController> }>()
  const ended = new AbortController()

  return {
    async take(key, work) {
      ended.signal.throwIfAborted()
      const lane = lanes.get(key) ?? { last: Promise.resolve(), inside: new Set() }
      lanes.set(key, lane)
      const controller = new AbortController()
      lane.inside.add(controller)
      const result = lane.last.then(() => {
        controller.signal.throwIfAborted()
        return work(controller.signal)
      })
      lane.last = result.catch(() => {})
      try {
        return await result
      } finally {
        lane.inside.delete(controller)
        if (lane.inside.size === 0) lanes.delete(key)
      }
    },
    interrupt(key, reason) {
      for (const controller of lanes.get(key)?.inside ?? []) controller.abort(reason)
    },
    end(reason) {
      ended.abort(reason)
      for (const lane of lanes.values()) for (const controller of lane.inside) controller.abort(reason)
    },
  }
}
