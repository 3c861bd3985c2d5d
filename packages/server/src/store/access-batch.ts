import { type Access, findAccess, type Presented } from './access.ts'
import type { Database } from './database.ts'

export type AccessLookup = (presented: Presented) => Promise<Access | null>

type Waiting = { presented: Presented; resolve(access: Access | null): void; reject(error: unknown): void }

/** Larger batches only make the first of them wait. */
const batchMax = 256

/** While this many statements are under way, tokens gather for the next one: batches grow with the load. */
const statementsMax = 1

/**
 * Collects every token that arrives in one turn of the event loop and asks for all of them in one statement.
 * Nothing is kept afterwards: a statement is always sent after the requests it answers have arrived, so a revocation
 * that was answered before a request started is always seen by it.
 */
export function createAccessLookup(db: Database): AccessLookup {
  let waiting: Waiting[] = []
  let answered: { batch: Waiting[]; found: (Access | null)[] }[] = []
  let underWay = 0
  let scheduled = false

  function schedule(): void {
    if (scheduled) return
    scheduled = true
    // setImmediate runs after every socket that was readable in this turn has been read.
    setImmediate(turn)
  }

  /**
   * The next statement leaves before anybody is answered: PostgreSQL then works while Node writes responses. The other
   * way round each would wait for the other.
   */
  function turn(): void {
    scheduled = false
    send()
    const done = answered
    answered = []
    for (const { batch, found } of done) {
      for (let i = 0; i < batch.length; i++) batch[i]!.resolve(found[i] ?? null)
    }
  }

  function send(): void {
    while (waiting.length > 0 && underWay < statementsMax) {
      const batch = waiting.length <= batchMax ? waiting : waiting.slice(0, batchMax)
      waiting = waiting.length <= batchMax ? [] : waiting.slice(batchMax)
      underWay += 1
      void ask(batch)
    }
  }

  async function ask(batch: Waiting[]): Promise<void> {
    try {
      const presented = batch.map((one) => one.presented)
      const found = await findAccess(db, presented)
      answered.push({ batch, found })
    } catch (error) {
      for (const one of batch) one.reject(error)
    }
    underWay -= 1
    schedule()
  }

  return (presented) =>
    new Promise((resolve, reject) => {
      waiting.push({ presented, resolve, reject })
      if (underWay < statementsMax) schedule()
    })
}
