import { once } from 'node:events'
import type { LocalInstances } from '../../../src/databases/drivers/driver.ts'

/** Pauses the backups of real instances after their first bytes, until `resume` or until they are aborted. */
export function createPausedBackups() {
  let gate = new AbortController()
  gate.abort()
  const paused = new Set<string>()
  return {
    /** The databases whose backup is paused. */
    paused,
    pause(): void {
      gate = new AbortController()
    },
    resume(): void {
      gate.abort()
    },
    around: (instances: LocalInstances): LocalInstances => ({
      ...instances,
      async *backup(id, options) {
        for await (const part of instances.backup(id, options)) {
          yield part
          const either = AbortSignal.any([gate.signal, options.signal])
          if (either.aborted) continue
          paused.add(id)
          await once(either, 'abort')
          paused.delete(id)
        }
      },
    }),
  }
}
