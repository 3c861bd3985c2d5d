import type { Database } from '../db/database.ts'
import type { KeyId, OrgId } from '../kernel/ids.ts'
import { type KeyUse, recordKeyUses } from './api-keys.ts'

export type KeyUses = {
  /** Remembers the use in memory and returns at once: no request waits for this write. */
  note(orgId: OrgId, keyId: KeyId): void
  /** Writes what is remembered and stops the timer. */
  close(): Promise<void>
}

/** A key that has not been seen for a while is written soon, so that "is it in use at all?" has an answer at once. */
const soonMs = 2_000
/** A key in constant use is written this often: every write makes a new version of its row of uses, and an old one to clean up. */
const laterMs = 20_000
/** A burst of distinct keys is written early instead of growing the map. */
const rememberedMax = 20_000
const statementMax = 2_000
/** A key that was noted within this time is not noted again: looking it up costs more than all else that is done here. */
const justNotedMs = 500

export function createKeyUses(deps: { db: Database; now: () => Date; onError: (error: unknown) => void }): KeyUses {
  let soon = new Map<KeyId, KeyUse>()
  let later = new Map<KeyId, KeyUse>()
  let written = new Set<KeyId>()
  let writing: Promise<void> = Promise.resolve()
  const justNoted = createJustNoted()

  function write(uses: KeyUse[]): Promise<void> {
    // One after the other: an older batch must not be overtaken.
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

  const timers = [
    setInterval(justNoted.forget, justNotedMs),
    setInterval(() => void (soon.size > 0 && writeSoon()), soonMs),
    setInterval(() => void writeLater(), laterMs),
  ]
  for (const timer of timers) timer.unref()

  return {
    note(orgId, keyId) {
      if (justNoted.has(keyId)) return
      const uses = written.has(keyId) ? later : soon
      const use = uses.get(keyId)
      if (use === undefined) uses.set(keyId, { orgId, keyId, at: deps.now() })
      else use.at = deps.now()
      if (soon.size >= rememberedMax) void writeSoon()
      if (written.size >= rememberedMax) void writeLater()
    },
    async close() {
      for (const timer of timers) clearInterval(timer)
      await writeSoon()
      await writeLater()
    },
  }
}

/**
 * Which keys were noted a moment ago, by six of their random characters. Two keys that are alike in those (one pair in a
 * thousand million) share the moment, and one of them is noted a moment later.
 */
function createJustNoted() {
  const places = 16_384
  const prints = new Int32Array(places)
  return {
    /** And from now on it is. */
    has(keyId: KeyId): boolean {
      let print = 0
      for (let at = keyId.length - 6; at < keyId.length; at++) print = (print << 5) ^ keyId.charCodeAt(at)
      const place = (print ^ (print >>> 14)) & (places - 1)
      if (prints[place] === print) return true
      prints[place] = print
      return false
    },
    forget(): void {
      prints.fill(0)
    },
  }
}
