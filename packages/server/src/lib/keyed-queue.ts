/** Work with the same key runs one after the other, in order of arrival; work with different keys runs in parallel. */
export type KeyedQueue<Key = string> = {
  /** Work with several keys waits for all of them. The signal aborts when the work is no longer wanted; if it waits, it rejects. */
  run<T>(keys: Key | readonly Key[], work: (signal: AbortSignal) => Promise<T>): Promise<T>
  /** Aborts what runs or waits under this key. Work that is added later runs as usual. */
  abort(key: Key, reason: Error): void
  /** Aborts everything, and rejects everything that is added later. */
  close(reason: Error): void
}

/** `endsWaiting`: work that waits fails with such an error as well, because it would wait as long as the work before it did. */
export function createKeyedQueue<Key extends string = string>(
  endsWaiting: (error: unknown) => boolean = () => false,
): KeyedQueue<Key> {
  const lines = new Map<Key, { last: Promise<unknown>; controllers: Set<AbortController> }>()
  const closed = new AbortController()
  const passOn = (error: unknown) => {
    if (endsWaiting(error)) throw error
  }

  return {
    async run(keys, work) {
      closed.signal.throwIfAborted()
      const controller = new AbortController()
      const own = new Set([keys].flat() as Key[])
      const before = [...own].map((key) => lines.get(key)?.last.catch(passOn))
      const last = Promise.all(before).then(() => {
        controller.signal.throwIfAborted()
        return work(controller.signal)
      })
      for (const key of own) {
        const line = lines.get(key) ?? { last, controllers: new Set() }
        line.last = last
        line.controllers.add(controller)
        lines.set(key, line)
      }
      try {
        return await last
      } finally {
        for (const key of own) {
          const { controllers } = lines.get(key)!
          controllers.delete(controller)
          if (controllers.size === 0) lines.delete(key)
        }
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
