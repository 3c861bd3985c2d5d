import type { Database } from '../store/database.ts'

const channel = 'keyhook_wake'
/** NOTIFY takes a lock that every notifying commit of the instance shares, so a process says it at most this often. */
const notifyMsMin = 2

/**
 * "There may be something to deliver", said after a commit. The dispatcher of this process hears it at once, the others
 * through PostgreSQL where notifications get through. None of it is needed: dispatchers also look by themselves.
 */
type Kind = 'work' | 'held'
type Listener = (kind: Kind) => void

export type Hints = {
  give(): void
  /** Lanes have news, and another process holds them. */
  giveHolders(): void
  /** Returns a function that stops listening. */
  hear(listener: Listener): () => void
  /** Hears other processes, if the database lets us: behind a transaction pooler it may not. */
  listen(): Promise<() => Promise<void>>
}

export function createHints(deps: { db: Database; onError(error: unknown): void }): Hints {
  const listeners = new Set<Listener>()
  const tellHere = (kind: Kind) => {
    for (const listener of listeners) listener(kind)
  }

  function tellingOthers(payload: '' | 'held'): () => void {
    let timer: NodeJS.Timeout | null = null
    let saidAt = 0
    const tell = () => {
      timer = null
      saidAt = performance.now()
      // A hint is worth no wait for the disk.
      deps.db`select set_config('synchronous_commit', 'off', true), pg_notify(${channel}, ${payload})`.catch(
        deps.onError,
      )
    }
    return () => {
      if (timer !== null) return
      const waitMs = saidAt + notifyMsMin - performance.now()
      if (waitMs <= 0) return tell()
      timer = setTimeout(tell, waitMs)
      timer.unref()
    }
  }

  const tellOthers = tellingOthers('')

  return {
    give() {
      tellHere('work')
      tellOthers()
    },
    giveHolders: tellingOthers('held'),
    hear(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    async listen() {
      const { unlisten } = await deps.db.listen(channel, (payload) => tellHere(payload === 'held' ? 'held' : 'work'))
      return unlisten
    },
  }
}
