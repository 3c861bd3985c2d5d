import { type Access, findAccess, type Presented } from './access.ts'
import type { Database } from './database.ts'

/** Not a promise: a request would pay for one at each step on its way, together as much as its look-up costs. */
export type AccessLookup = (presented: Presented, done: AccessFound) => void
type AccessFound = (error: unknown, access: Access | null) => void

type Waiting = { presented: Presented; done: AccessFound }

/** Larger batches only make the first of them wait. */
const batchMax = 256
/** So few are answered in one go. */
const wholeMax = 16

/**
 * Collects every token that arrives in one turn of the event loop and asks for all of them in one statement. While it is
 * under way the next ones gather, so batches grow with the load.
 * Nothing is kept afterwards: a statement is always sent after the requests it answers have arrived, so a revocation
 * that was answered before a request started is always seen by it.
 */
export function createAccessLookup(db: Database): AccessLookup {
  let waiting: Waiting[] = []
  let asked = 0
  let scheduled = false
  const answers: { to: Waiting[]; found: readonly (Access | null)[]; given: number }[] = []

  function schedule(): void {
    if (scheduled) return
    scheduled = true
    // setImmediate runs after every socket that was readable in this turn has been read.
    setImmediate(turn)
  }

  /** The next statement leaves before anybody is answered: PostgreSQL then works while Node writes responses. */
  function turn(): void {
    scheduled = false
    if (waiting.length > 0 && asked === 0) void ask()
    answer()
    if (answers.length > 0) schedule()
  }

  /**
   * Half of those who are with us now, the others in the next turn: by then the first will have asked again. Answered all
   * at once, they would all be in one batch for ever, and Node idle while PostgreSQL works on it (a fifth of the time,
   * with 64 connections).
   */
  function answer(): void {
    const unanswered = answers.reduce((sum, { to, given }) => sum + to.length - given, 0)
    let left = Math.max(wholeMax, Math.ceil((unanswered + waiting.length + asked) / 2))
    for (let first = answers[0]; first !== undefined && left > 0; first = answers[0]) {
      const until = Math.min(first.to.length, first.given + left)
      left -= until - first.given
      while (first.given < until) {
        const place = first.given++
        hand(first.to[place]!, null, first.found[place]!)
      }
      if (until === first.to.length) answers.shift()
    }
  }

  async function ask(): Promise<void> {
    const batch = waiting.length <= batchMax ? waiting : waiting.slice(0, batchMax)
    waiting = waiting.length <= batchMax ? [] : waiting.slice(batchMax)
    asked = batch.length
    try {
      const found = await findAccess(
        db,
        batch.map((one) => one.presented),
      )
      answers.push({ to: batch, found, given: 0 })
    } catch (error) {
      for (const one of batch) hand(one, error, null)
    }
    asked = 0
    schedule()
  }

  return (presented, done) => {
    waiting.push({ presented, done })
    if (asked === 0) schedule()
  }
}

/** One that throws is a fault of ours: it ends the process as such, and takes no answer from those behind it. */
function hand(one: Waiting, error: unknown, access: Access | null): void {
  try {
    one.done(error, access)
  } catch (thrown) {
    process.nextTick(() => {
      throw thrown
    })
  }
}
