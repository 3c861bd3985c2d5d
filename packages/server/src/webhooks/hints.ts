import type { Database } from '../db/database.ts'
import type { MasterKeys } from '../kernel/master-keys.ts'
import type { Announcement } from '../store/delivery/announcements.ts'
import { createHintSeal } from './hint-seal.ts'

const channel = 'keyhook_wake'
/** NOTIFY takes a lock that every notifying commit of the instance shares, so a process says it at most this often. */
const notifyMs = 2
/** NOTIFY takes less than 8,000 bytes. Sealing and writing it as text makes it larger by a third and more. */
const payloadMax = 7_900
const announcedBytesMax = (payloadMax * 3) / 4
/**
 * For so long it is believed. Whoever listens can say again later what was said, to the same database after it was restored: there
 * the numbers stand for other events. Clocks that differ by more make announcements plain hints.
 */
const freshMs = 10_000
type Said = { atMs: number; announcements: Announcement[] }
/** Somebody who listens and never reads keeps all that is said in PostgreSQL's queue, of 8 GB: from this share of it on we say little. */
const queueShareMax = 0.001

/**
 * "There may be something to deliver", said after a commit. The dispatcher of this process hears it at once, the others
 * through PostgreSQL where notifications get through. None of it is needed: dispatchers also look by themselves.
 */
export type Hint =
  /** `announcements`: all that it is about; null where it does not say. */
  | { kind: 'work'; announcements: readonly Announcement[] | null }
  /** Lanes have news, and another process holds them. */
  | { kind: 'held' }
/** Says whether it has seen to all that there is to do: then nobody else need hear of it. */
type Listener = (hint: Hint) => boolean

export type Hints = {
  /** What it announces is committed. */
  give(announcements?: readonly Announcement[] | null): void
  giveHolders(): void
  /** Returns a function that stops listening. */
  hear(listener: Listener): () => void
  /** Hears other processes, if the database lets us: behind a transaction pooler it may not. */
  listen(): Promise<() => Promise<void>>
}

/** At least. */
const bytesOf = ({ events }: Announcement): number => events.reduce((sum, { body }) => sum + 100 + body.length, 0)

export function createHints(deps: {
  db: Database
  masterKeys: Pick<MasterKeys, 'derive'>
  onError(error: unknown): void
  now?(): number
  notifyMsMin?: number
}): Hints {
  const { now = Date.now, notifyMsMin = notifyMs } = deps
  const listeners = new Set<Listener>()
  const seal = createHintSeal(deps.masterKeys)
  /** What there is to say to others the next time, about so many bytes; null if that is more than can be said. */
  let gathered: Announcement[] | null = []
  let gatheredBytes = 0
  const gather = (announcements: readonly Announcement[] | null) => {
    gatheredBytes += announcements?.reduce((sum, one) => sum + bytesOf(one), 0) ?? 0
    if (announcements === null || gatheredBytes > announcedBytesMax) gathered = null
    else gathered?.push(...announcements)
  }

  const tellHere = (hint: Hint): boolean => [...listeners].filter((listener) => listener(hint)).length > 0

  function tellingOthers(payload: () => { full: string; brief: string }): () => void {
    let timer: NodeJS.Timeout | null = null
    let saidAt = 0
    const tell = () => {
      timer = null
      saidAt = performance.now()
      const { full, brief } = payload()
      // A hint is worth no wait for the disk.
      deps.db`
        select set_config('synchronous_commit', 'off', true), pg_notify(
          ${channel}, case when pg_notification_queue_usage() < ${queueShareMax} then ${full}::text else ${brief}::text end
        )`.catch(deps.onError)
    }
    return () => {
      if (timer !== null) return
      const waitMs = saidAt + notifyMsMin - performance.now()
      if (waitMs <= 0) return tell()
      timer = setTimeout(tell, waitMs)
      timer.unref()
    }
  }

  const tellOthers = tellingOthers(() => {
    const sealed =
      gathered === null ? null : seal.seal(JSON.stringify({ atMs: now(), announcements: gathered } satisfies Said))
    gathered = []
    gatheredBytes = 0
    const brief = seal.sender
    return { full: sealed === null || sealed.length > payloadMax ? brief : sealed, brief }
  })

  function hintOf(payload: string): Hint | null {
    if (payload === 'held') return { kind: 'held' }
    // We have told ourselves.
    if (seal.isOwn(payload)) return null
    const said = seal.open(payload)
    if (said === null) return { kind: 'work', announcements: null }
    const { atMs, announcements }: Said = JSON.parse(said)
    return { kind: 'work', announcements: Math.abs(now() - atMs) < freshMs ? announcements : null }
  }

  return {
    give(announcements = null) {
      if (tellHere({ kind: 'work', announcements })) return
      gather(announcements)
      tellOthers()
    },
    giveHolders: tellingOthers(() => ({ full: 'held', brief: 'held' })),
    hear(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    async listen() {
      return deps.db.listen(channel, (payload) => {
        const hint = hintOf(payload)
        if (hint !== null) tellHere(hint)
      })
    },
  }
}
