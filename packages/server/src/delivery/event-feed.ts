import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Database } from '../db/database.ts'
import type { OrgId } from '../lib/ids.ts'
import { type EventBatch, listNewest, readEventsAfter } from './event-log-sql.ts'
import type { Hints } from './hints.ts'

/** How often all waiting readers together look for events whose hint was lost: one statement for each look. */
const pollMs = 1_000

type FeedLimits = { readersMax: number; readersPerOrgMax: number }

/** One reader of an organization's events. It holds no connection while it waits. */
type FeedReader = {
  read(after: number): Promise<EventBatch>
  /** Resolves when there may be events after the position, when the time has passed, or when the reader or the feed is closed. */
  wait(after: number, ms: number): Promise<void>
  close(): void
  /** False once the reader or the feed is closed. */
  readonly isOpen: boolean
}

export type EventFeed = {
  /** Null when there are too many readers, or the feed is closed. */
  open(orgId: OrgId): FeedReader | null
  /** Aborted when the process stops. */
  readonly stopping: AbortSignal
  close(): Promise<void>
}

type Waiting = { after: number; notice(): void }

/**
 * Tells readers of new events: by hints, of this process and of others, and by a poll. Readers at the same position that read in
 * the same turn share a statement, so that a hundred streams of one organization cost as much as one.
 */
export function createEventFeed(deps: {
  db: Database
  hints: Hints
  limits: FeedLimits
  onError(error: unknown): void
}): EventFeed {
  const { db, hints, limits } = deps
  const readers = new Map<OrgId, Set<Waiting>>()
  const starting = new Map<string, Promise<EventBatch>>()
  const stopping = new AbortController()
  let count = 0
  let listening: Promise<() => Promise<void>> | null = null
  let isPolling = false

  const removeListener = hints.onHint((orgIds) => {
    for (const orgId of orgIds ?? readers.keys()) for (const reader of readers.get(orgId) ?? []) reader.notice()
  })

  async function poll(): Promise<void> {
    if (isPolling || readers.size === 0) return
    isPolling = true
    try {
      for (const [orgId, newest] of await listNewest(db, [...readers.keys()])) {
        for (const reader of readers.get(orgId) ?? []) if (newest > reader.after) reader.notice()
      }
    } catch (error) {
      deps.onError(error)
    } finally {
      isPolling = false
    }
  }
  const timer = setInterval(() => void poll(), pollMs)
  timer.unref()

  /** Only until the statement is sent: a later reader may know of an event that was committed after it. */
  function readShared(orgId: OrgId, after: number): Promise<EventBatch> {
    const key = `${orgId} ${after}`
    const begun = starting.get(key)
    if (begun !== undefined) return begun
    const read = nextTurn().then(() => {
      starting.delete(key)
      return readEventsAfter(db, orgId, after)
    })
    starting.set(key, read)
    return read
  }

  /** From the first reader on. Behind a pooler that swallows LISTEN, the poll is left. */
  function listen(): void {
    listening ??= hints.listen().catch((error) => {
      deps.onError(error)
      return async () => {}
    })
  }

  function createReader(orgId: OrgId): FeedReader {
    /** Something may have happened since the last read began. */
    let isNew = false
    let isClosed = false
    let wake = () => {}
    const waiting: Waiting = {
      after: 0,
      notice() {
        isNew = true
        wake()
      },
    }
    const ofOrg = readers.get(orgId) ?? new Set()
    readers.set(orgId, ofOrg.add(waiting))
    count += 1
    return {
      read(after) {
        isNew = false
        return readShared(orgId, after)
      },
      wait(after, ms) {
        waiting.after = after
        if (isNew || !this.isOpen) return Promise.resolve()
        return new Promise((done) => {
          const timeout = setTimeout(() => wake(), ms)
          wake = () => {
            clearTimeout(timeout)
            wake = () => {}
            done()
          }
        })
      },
      close() {
        if (isClosed) return
        isClosed = true
        count -= 1
        ofOrg.delete(waiting)
        if (ofOrg.size === 0) readers.delete(orgId)
        wake()
      },
      get isOpen() {
        return !isClosed && !stopping.signal.aborted
      },
    }
  }

  return {
    open(orgId) {
      const isFull = count >= limits.readersMax || (readers.get(orgId)?.size ?? 0) >= limits.readersPerOrgMax
      if (isFull || stopping.signal.aborted) return null
      listen()
      return createReader(orgId)
    },
    stopping: stopping.signal,
    async close() {
      stopping.abort()
      clearInterval(timer)
      removeListener()
      for (const ofOrg of readers.values()) for (const reader of ofOrg) reader.notice()
      await listening?.then((stop) => stop()).catch(deps.onError)
    },
  }
}
