import { type Access, findAccess, type Presented } from './access.ts'
import type { Database } from './database.ts'

export type AccessLookup = (presented: Presented) => Promise<Access | null>

type Waiting = { presented: Presented; resolve(access: Access | null): void; reject(error: unknown): void }

/** PostgreSQL answers a batch of this size in about two milliseconds; larger ones only make the first of them wait. */
const batchMax = 256

/**
 * While this many statements are under way, tokens gather for the next one. That is what makes batches grow with the
 * load: without it a busy server sends many statements of a few tokens each (measured: 20 µs of PostgreSQL and 12 µs of
 * Node per token, against 9 and 5).
 */
const statementsMax = 2

/**
 * Collects every token that arrives in one turn of the event loop and asks for all of them in one statement.
 * Nothing is kept afterwards: a statement is always sent after the requests it answers have arrived, so a revocation
 * that was answered before a request started is always seen by it.
 */
export function createAccessLookup(db: Database): AccessLookup {
  let waiting: Waiting[] = []
  let underWay = 0
  let scheduled = false

  function schedule(): void {
    if (scheduled || waiting.length === 0 || underWay >= statementsMax) return
    scheduled = true
    // setImmediate runs after every socket that was readable in this turn has been read.
    setImmediate(send)
  }

  function send(): void {
    scheduled = false
    const batch = waiting.length <= batchMax ? waiting : waiting.slice(0, batchMax)
    waiting = waiting.length <= batchMax ? [] : waiting.slice(batchMax)
    underWay += 1
    void answer(batch)
    schedule()
  }

  async function answer(batch: Waiting[]): Promise<void> {
    try {
      const found = await findAccess(
        db,
        batch.map((one) => one.presented),
      )
      for (let i = 0; i < batch.length; i++) batch[i]!.resolve(found[i] ?? null)
    } catch (error) {
      for (const one of batch) one.reject(error)
    } finally {
      underWay -= 1
      schedule()
    }
  }

  return (presented) =>
    new Promise((resolve, reject) => {
      waiting.push({ presented, resolve, reject })
      schedule()
    })
}
