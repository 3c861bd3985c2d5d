import { once } from 'node:events'
import type { DatabaseDriver } from '../../../src/platform/driver.ts'

/** Makes the backups of a real driver stop after their first bytes, until they are told to or let go. */
export function createBackupHold() {
  let gate = new AbortController()
  gate.abort()
  const held = new Set<string>()
  return {
    /** The databases whose backup stands still. */
    held,
    hold(): void {
      gate = new AbortController()
    },
    release(): void {
      gate.abort()
    },
    around: (driver: DatabaseDriver): DatabaseDriver => ({
      ...driver,
      async *backup(id, options) {
        for await (const part of driver.backup(id, options)) {
          yield part
          const either = AbortSignal.any([gate.signal, options.signal])
          if (either.aborted) continue
          held.add(id)
          await once(either, 'abort')
          held.delete(id)
        }
      },
    }),
  }
}
