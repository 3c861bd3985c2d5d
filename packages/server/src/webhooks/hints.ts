import type { Database } from '../store/database.ts'

const channel = 'keyhook_wake'
/** NOTIFY takes a lock that every notifying commit of the instance shares, so a process says it at most this often. */
const notifyMsMin = 5

/**
 * "There may be something to deliver", said after a commit. The dispatcher of this process hears it at once, the others
 * through PostgreSQL where notifications get through. None of it is needed: dispatchers also look by themselves.
 */
export type Hints = {
  give(): void
  /** Returns a function that stops listening. */
  hear(listener: () => void): () => void
  /** Hears other processes, if the database lets us: behind a transaction pooler it may not. */
  listen(): Promise<() => Promise<void>>
}

export function createHints(deps: { db: Database; onError(error: unknown): void }): Hints {
  const listeners = new Set<() => void>()
  let timer: NodeJS.Timeout | null = null
  let saidAt = 0

  const tellHere = () => {
    for (const listener of listeners) listener()
  }

  function tellOthers(): void {
    timer = null
    saidAt = performance.now()
    deps.db`select pg_notify(${channel}, '')`.catch(deps.onError)
  }

  return {
    give() {
      tellHere()
      if (timer !== null) return
      timer = setTimeout(tellOthers, Math.max(0, saidAt + notifyMsMin - performance.now()))
      timer.unref()
    },
    hear(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    async listen() {
      const { unlisten } = await deps.db.listen(channel, tellHere)
      return unlisten
    },
  }
}
