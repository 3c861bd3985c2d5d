import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Database } from '../db/database.ts'
import { isId, type OrgId } from '../lib/ids.ts'

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
export type Hints = {
  give(orgIds: readonly OrgId[] | null): void
  /** Returns a function that removes the listener. */
  onHint(listener: Listener): () => void
  /**
   * Passes on hints of other processes, on one connection however often it is called. Behind a transaction pooler none may arrive.
   * Returns a function that ends it, once all who called have ended it.
   */
  listen(): Promise<() => Promise<void>>
}

export function createHints({ db, onError }: { db: Database; onError(error: unknown): void }): Hints {
  const sender = randomBytes(8).toString('hex')
  const listeners = new Set<Listener>()
  /** What the next NOTIFY names. */
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
    give(orgIds) {
      callListeners(orgIds)
      if (orgIds === null) isAny = true
      else for (const orgId of orgIds) pending.add(orgId)
      if (!isNotifying) void notifyOthers()
    },
    onHint(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    async listen() {
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
