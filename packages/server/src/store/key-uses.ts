import type { KeyId, OrgId } from '../kernel/ids.ts'
import { type KeyUse, recordKeyUses } from './api-keys.ts'
import type { Database } from './database.ts'

export type KeyUses = {
  /** Remembers the use in memory and returns at once: no request waits for this write. */
  note(orgId: OrgId, keyId: KeyId): void
  /** Writes what is remembered and stops the timer. */
  close(): Promise<void>
}

const flushMs = 2_000
/** A burst of distinct keys is written early instead of growing the map. */
const rememberedMax = 20_000
const statementMax = 2_000

export function createKeyUses(deps: { db: Database; now: () => Date; onError: (error: unknown) => void }): KeyUses {
  let remembered = new Map<KeyId, KeyUse>()
  let writing: Promise<void> = Promise.resolve()

  function flush(): Promise<void> {
    const uses = [...remembered.values()]
    remembered = new Map()
    // One after the other: an older batch must not be overtaken.
    writing = writing.then(async () => {
      for (let start = 0; start < uses.length; start += statementMax) {
        await recordKeyUses(deps.db, uses.slice(start, start + statementMax)).catch(deps.onError)
      }
    })
    return writing
  }

  const timer = setInterval(() => void (remembered.size > 0 && flush()), flushMs)
  timer.unref()

  return {
    note(orgId, keyId) {
      const use = remembered.get(keyId)
      if (use !== undefined) {
        use.at = deps.now()
        return
      }
      remembered.set(keyId, { orgId, keyId, at: deps.now() })
      if (remembered.size >= rememberedMax) void flush()
    },
    close() {
      clearInterval(timer)
      return flush()
    },
  }
}
