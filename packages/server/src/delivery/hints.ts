import { randomBytes } from 'node:crypto'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import type { Database } from '../db/database.ts'
import { isId, type OrgId } from '../lib/ids.ts'
import { type EventBatch, listNewest, readEventsAfter } from './event-log-sql.ts'

const channel = 'keyhook_hints'
/** NOTIFY takes a lock that all notifying commits of the server share, so a process sends one at most this often. */
const notifyMsMin = 2
/** PostgreSQL takes less than 8,000 bytes. */
const payloadBytesMax = 7_900

/** `null`: any organization may have something to deliver. */
type Listener = (orgIds: readonly OrgId[] | null) => void

/**
 * "These organizations have something to deliver", given after a commit. Listeners of this process are called at once, other
 * processes get a NOTIFY. A lost or forged hint costs a poll or a read, never a delivery.
 */
export type Hints = ReturnType<typeof createHints>

export function createHints({ db, onError }: { db: Database; onError(error: unknown): void }) {
  const sender = randomBytes(8).toString('hex')
  const listeners = new Set<Listener>()
  let pending = new Set<OrgId>()
  let isAny = false
  let isNotifying = false
  /** The connection for hints of others, and how many use it. */
  let listening: Promise<() => Promise<void>> | null = null
  let users = 0

  const callListeners: Listener = (orgIds) => {
    for (const listener of listeners) listener(orgIds)
  }

  function onPayload(payload: string): void {
    const [from, ids = ''] = payload.split(' ')
    if (from === sender) return
    const orgIds = ids.split(',')
    callListeners(orgIds.every((id) => isId('org', id)) ? orgIds : null)
  }

  function takePayload(): string {
    const payload = `${sender} ${[...pending].join()}`
    const isTooLong = payload.length > payloadBytesMax
    const taken = isAny || isTooLong ? `${sender} ` : payload
    pending = new Set()
    isAny = false
    return taken
  }

  /** One at a time: while PostgreSQL does not answer, hints must not queue up for connections. */
  async function notifyOthers(): Promise<void> {
    isNotifying = true
    while (isAny || pending.size > 0) {
      // Without a wait for the disk: a hint need not survive a crash.
      await db`
        select set_config('synchronous_commit', 'off', true), pg_notify(${channel}, ${takePayload()})`.catch(onError)
      await sleep(notifyMsMin, undefined, { ref: false })
    }
    isNotifying = false
  }

  return {
    give(orgIds: readonly OrgId[] | null): void {
      callListeners(orgIds)
      if (orgIds === null) isAny = true
      else for (const orgId of orgIds) pending.add(orgId)
      if (!isNotifying) void notifyOthers()
    },
    /** Returns a function that removes the listener. */
    onHint(listener: Listener): () => void {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    /**
     * Passes on hints of other processes, on one connection however often it is called. Behind a transaction pooler none may arrive.
     * Returns a function that ends it, once all who called have ended it.
     */
    async listen(): Promise<() => Promise<void>> {
      users += 1
      listening ??= db.listen(channel, onPayload)
      await listening.catch((error) => {
        users -= 1
        listening = null
        throw error
      })
      return async () => {
        users -= 1
        if (users > 0) return
        const ended = listening
        listening = null
        await ended?.then((stop) => stop())
      }
    },
  }
}

/** How often all waiting readers together look for events whose hint was lost: one statement for each look. */
const pollMs = 1_000

export type EventFeed = ReturnType<typeof createEventFeed>
export type FeedReader = NonNullable<ReturnType<EventFeed['open']>>

type Waiting = { after: number; notice(): void }

/**
 * Tells readers of new events: by hints, of this process and of others, and by a poll. Readers at the same position that read in
 * the same turn share a statement, so that a hundred streams of one organization cost as much as one.
 */
export function createEventFeed(deps: {
  db: Database
  hints: Hints
  limits: { readersMax: number; readersPerOrgMax: number }
  onError(error: unknown): void
}) {
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

  /** One reader of an organization's events. It holds no connection while it waits. */
  function createReader(orgId: OrgId) {
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
      read(after: number): Promise<EventBatch> {
        isNew = false
        return readShared(orgId, after)
      },
      /** Resolves when there may be events after the position, when the time has passed, or when the reader or the feed is closed. */
      wait(after: number, ms: number): Promise<void> {
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
      close(): void {
        if (isClosed) return
        isClosed = true
        count -= 1
        ofOrg.delete(waiting)
        if (ofOrg.size === 0) readers.delete(orgId)
        wake()
      },
      /** False once the reader or the feed is closed. */
      get isOpen(): boolean {
        return !isClosed && !stopping.signal.aborted
      },
    }
  }

  return {
    /** Null when there are too many readers, or the feed is closed. */
    open(orgId: OrgId) {
      const isFull = count >= limits.readersMax || (readers.get(orgId)?.size ?? 0) >= limits.readersPerOrgMax
      if (isFull || stopping.signal.aborted) return null
      listen()
      return createReader(orgId)
    },
    /** Aborted when the process stops. */
    stopping: stopping.signal as AbortSignal,
    async close(): Promise<void> {
      stopping.abort()
      clearInterval(timer)
      removeListener()
      for (const ofOrg of readers.values()) for (const reader of ofOrg) reader.notice()
      await listening?.then((stop) => stop()).catch(deps.onError)
    },
  }
}
