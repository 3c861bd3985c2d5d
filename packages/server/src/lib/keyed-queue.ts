/** Work with the same key runs one after the other, in order of arrival; work with different keys runs in parallel. */
export type KeyedQueue = {
  /** The signal aborts when the work is no longer wanted. Work that is still waiting then rejects without starting. */
  run<T>(key: string, work: (signal: AbortSignal) => Promise<T>): Promise<T>
  /** Aborts what runs or waits under this key. Work that is added later runs as usual. */
  abort(key: string, reason: Error): void
  /** Aborts everything, and rejects everything that is added later. */
  close(reason: Error): void
}

export function createKeyedQueue(): KeyedQueue {
  const lines = new Map<string, { last: Promise<unknown>; controllers: Set<AbortController> }>()
  const closed = new AbortController()

  return {
    async run(key, work) {
      closed.signal.throwIfAborted()
      const line = lines.get(key) ?? { last: Promise.resolve(), controllers: new Set() }
      lines.set(key, line)
      const controller = new AbortController()
      line.controllers.add(controller)
      const result = line.last.then(() => {
        controller.signal.throwIfAborted()
        return work(controller.signal)
      })
      line.last = result.catch(() => {})
      try {
        return await result
      } finally {
        line.controllers.delete(controller)
        if (line.controllers.size === 0) lines.delete(key)
      }
    },
    abort(key, reason) {
      for (const controller of lines.get(key)?.controllers ?? []) controller.abort(reason)
    },
    close(reason) {
      closed.abort(reason)
      for (const { controllers } of lines.values()) for (const controller of controllers) controller.abort(reason)
    },
  }
}
