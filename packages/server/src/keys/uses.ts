import type { Database } from '../db/database.ts'
import type { KeyId, OrgId } from '../lib/ids.ts'
import { type KeyRefusals, type KeyUse, recordKeyRefusals, recordKeyUses } from './sql.ts'

export type KeyUses = {
  /** Remembers the use in memory: no request waits for the write. */
  note(orgId: OrgId, keyId: KeyId): void
  /** The same for a request that was refused because of its address. */
  noteRefusal(orgId: OrgId, keyId: KeyId, address: string): void
  /** Writes what is remembered and stops the timers. */
  close(): Promise<void>
}

/** A key that was not used for a while is written soon, so that the list shows at once that it is in use. */
const soonMs = 2_000
/** A key in constant use is written this often: every write leaves a dead row version to clean up. */
const laterMs = 20_000
/** A burst of distinct keys is written early instead of growing the map. */
const rememberedMax = 20_000
const statementMax = 2_000
/** How exact `last_used_at` is. Within this time further uses of a key cost one look-up in a Set (0.15 us). */
const resolutionMs = 500

/** No batcher of `lib`: uses are merged by key, and a statement must not have a key twice. */
export function createKeyUses(deps: { db: Database; now: () => Date; onError: (error: unknown) => void }): KeyUses {
  let soon = new Map<KeyId, KeyUse>()
  let later = new Map<KeyId, KeyUse>()
  let written = new Set<KeyId>()
  let refused = new Map<KeyId, KeyRefusals>()
  let writing: Promise<void> = Promise.resolve()
  const justUsed = new Set<KeyId>()

  function write(uses: KeyUse[]): Promise<void> {
    // One after the other: an older batch must not overwrite a newer one.
    writing = writing.then(async () => {
      for (let start = 0; start < uses.length; start += statementMax) {
        await recordKeyUses(deps.db, uses.slice(start, start + statementMax)).catch(deps.onError)
      }
    })
    return writing
  }

  function writeSoon(): Promise<void> {
    const uses = [...soon.values()]
    soon = new Map()
    for (const { keyId } of uses) written.add(keyId)
    return write(uses)
  }

  function writeLater(): Promise<void> {
    const uses = [...later.values()]
    later = new Map()
    written = new Set()
    return write(uses)
  }

  function writeRefusals(): Promise<void> {
    const refusals = [...refused.values()]
    refused = new Map()
    return recordKeyRefusals(deps.db, refusals).catch(deps.onError)
  }

  const timers = [
    setInterval(() => justUsed.clear(), resolutionMs),
    setInterval(() => void (soon.size > 0 && writeSoon()), soonMs),
    setInterval(() => void (refused.size > 0 && writeRefusals()), soonMs),
    setInterval(() => void writeLater(), laterMs),
  ]
  for (const timer of timers) timer.unref()

  return {
    note(orgId, keyId) {
      if (justUsed.has(keyId)) return
      justUsed.add(keyId)
      const uses = written.has(keyId) ? later : soon
      const use = uses.get(keyId)
      if (use === undefined) uses.set(keyId, { orgId, keyId, at: deps.now() })
      else use.at = deps.now()
      if (soon.size >= rememberedMax) void writeSoon()
      if (written.size >= rememberedMax) void writeLater()
    },
    noteRefusal(orgId, keyId, address) {
      const count = (refused.get(keyId)?.count ?? 0) + 1
      refused.set(keyId, { orgId, keyId, count, at: deps.now(), address })
      if (refused.size >= rememberedMax) void writeRefusals()
    },
    async close() {
      for (const timer of timers) clearInterval(timer)
      await writeSoon()
      await writeLater()
      if (refused.size > 0) await writeRefusals()
    },
  }
}
