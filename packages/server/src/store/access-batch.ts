import type { Database } from '../db/database.ts'
import { hashApiKey, isApiKey } from '../domain/api-key.ts'
import { type Access, findAccess, type LoginPresented, type Presented } from './access.ts'

/** Not promises: a request would pay for one at each step on its way, together as much as its look-up costs. */
export type AccessLookup = {
  /** False, and never calls back, for what cannot be a key: the database is not asked about garbage. */
  key(token: string, done: AccessFound): boolean
  login(login: Omit<LoginPresented, 'kind'>, done: AccessFound): void
}
type AccessFound = (error: unknown, access: Access | null) => void

/** `asks`: what the statement will ask for. `keys`: where in it each key stands. `waiting`: who waits for which of them. */
type Batch = { asks: Presented[]; keys: Map<string, number>; waiting: Waiting[] }
type Waiting = { place: number; done: AccessFound }

/** Larger batches only make the first of them wait. */
const batchMax = 256
/** So few are answered in one go. */
const wholeMax = 8

/**
 * Collects every token that arrives in one turn of the event loop and asks for all of them in one statement. While it is
 * under way the next ones gather, so batches grow with the load. A key that several of them show is read, hashed and asked
 * for once: mostly it is one script that sends many requests at a time.
 * Nothing is kept afterwards: a statement is always sent after the requests it answers have arrived, so a revocation
 * that was answered before a request started is always seen by it.
 */
export function createAccessLookup(db: Database): AccessLookup {
  const gathering: Batch[] = []
  let gathered = 0
  let asked = 0
  let scheduled = false
  const answers: { to: Waiting[]; found: readonly (Access | null)[]; given: number }[] = []

  function schedule(): void {
    if (scheduled) return
    scheduled = true
    // setImmediate runs after every socket that was readable in this turn has been read.
    setImmediate(turn)
  }

  /** PostgreSQL works on the next statement while Node reads requests. Sent before the answers, it has fewer (0.93 of the rate). */
  function turn(): void {
    scheduled = false
    answer()
    if (gathered > 0 && asked === 0) void ask(gathering.shift()!)
    if (answers.length > 0) schedule()
  }

  /**
   * A quarter of those who are with us now, the others in the next turns: by then the first will have asked again. Answered
   * all at once, they would all be in one batch for ever, and Node idle while PostgreSQL works on it (a fifth of the time,
   * with 64 connections). Halves leave it idle for a tenth; eighths gain nothing more.
   */
  function answer(): void {
    const unanswered = answers.reduce((sum, { to, given }) => sum + to.length - given, 0)
    let left = Math.max(wholeMax, Math.ceil((unanswered + gathered + asked) / 4))
    for (let first = answers[0]; first !== undefined && left > 0; first = answers[0]) {
      const until = Math.min(first.to.length, first.given + left)
      left -= until - first.given
      while (first.given < until) {
        const one = first.to[first.given++]!
        hand(one, null, first.found[one.place]!)
      }
      if (until === first.to.length) answers.shift()
    }
  }

  async function ask({ asks, waiting }: Batch): Promise<void> {
    gathered -= waiting.length
    asked = waiting.length
    try {
      answers.push({ to: waiting, found: await findAccess(db, asks), given: 0 })
    } catch (error) {
      for (const one of waiting) hand(one, error, null)
    }
    asked = 0
    schedule()
  }

  function openBatch(): Batch {
    const last = gathering.at(-1)
    if (last !== undefined && last.waiting.length < batchMax) return last
    const next: Batch = { asks: [], keys: new Map(), waiting: [] }
    gathering.push(next)
    return next
  }

  function wait(batch: Batch, place: number, done: AccessFound): void {
    batch.waiting.push({ place, done })
    gathered += 1
    if (asked === 0) schedule()
  }

  return {
    key(token, done) {
      const batch = openBatch()
      let place = batch.keys.get(token)
      if (place === undefined) {
        if (!isApiKey(token)) return false
        place = batch.asks.push({ kind: 'key', hash: hashApiKey(token) }) - 1
        batch.keys.set(token, place)
      }
      wait(batch, place, done)
      return true
    },
    login(login, done) {
      const batch = openBatch()
      wait(batch, batch.asks.push({ kind: 'login', ...login }) - 1, done)
    },
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
