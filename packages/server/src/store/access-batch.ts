import { type Access, findAccess, type Presented } from './access.ts'
import type { Database } from './database.ts'

export type AccessLookup = (presented: Presented) => Promise<Access | null>

type Waiting = { presented: Presented; resolve(access: Access | null): void; reject(error: unknown): void }

/** PostgreSQL answers a batch of this size in about a millisecond; larger ones only make the first of them wait. */
const batchMax = 256

/**
 * Collects every token that arrives in one turn of the event loop and asks for all of them in one statement.
 * Nothing is kept afterwards: a statement is always sent after the requests it answers have arrived, so a revocation
 * that was answered before a request started is always seen by it.
 */
export function createAccessLookup(db: Database): AccessLookup {
  let waiting: Waiting[] = []

  function flush(): void {
    const all = waiting
    waiting = []
    for (let start = 0; start < all.length; start += batchMax) void answer(all.slice(start, start + batchMax))
  }

  async function answer(batch: Waiting[]): Promise<void> {
    try {
      const found = await findAccess(
        db,
        batch.map((one) => one.presented),
      )
      batch.forEach((one, i) => {
        one.resolve(found[i] ?? null)
      })
    } catch (error) {
      for (const one of batch) one.reject(error)
    }
  }

  return (presented) =>
    new Promise((resolve, reject) => {
      // setImmediate runs after every socket that was readable in this turn has been read.
      if (waiting.length === 0) setImmediate(flush)
      waiting.push({ presented, resolve, reject })
    })
}
