import type { Database } from '../db/database.ts'
import { hashApiKey, isApiKey } from '../domain/api-key.ts'
import { type Access, findAccess, type LoginPresented, type Presented } from './access.ts'

/** Callbacks and not promises: the promises of one request would cost as much as its look-up. */
export type AccessLookup = {
  /** Returns false, without calling back, for a token that cannot be a key: no query is sent for it. */
  key(token: string, done: OnAccess): boolean
  login(login: Omit<LoginPresented, 'kind'>, done: OnAccess): void
}
type OnAccess = (error: unknown, access: Access | null) => void

/** `questions`: what the statement looks up. `keys`: the index of each key in it. `requests`: who waits for which of them. */
type Batch = { questions: Presented[]; keys: Map<string, number>; requests: Request[] }
type Request = { index: number; done: OnAccess }
type Answered = { requests: Request[]; access: readonly (Access | null)[]; doneCount: number }

/** A larger batch only makes its first request wait longer. */
const batchMax = 256
const answersAtOnceMin = 8

/**
 * Collects all tokens that arrive in one turn of the event loop and looks them up in one statement. The next ones collect while it
 * runs, so batches grow with the load. A key that several requests present is hashed and looked up once.
 * Nothing is kept afterwards: a statement is sent after the requests that it answers have arrived, so each of them sees every
 * revocation that was answered before.
 */
export function createAccessLookup(db: Database): AccessLookup {
  const batches: Batch[] = []
  const answers: Answered[] = []
  let collected = 0
  let inFlight = 0
  let isScheduled = false

  function schedule(): void {
    if (isScheduled) return
    isScheduled = true
    // setImmediate runs after every socket that was readable in this turn has been read.
    setImmediate(turn)
  }

  /** Answers come first: with the statement first, batches are smaller (0.93 of the rate). */
  function turn(): void {
    isScheduled = false
    answerSome()
    if (collected > 0 && inFlight === 0) void send(batches.shift()!)
    if (answers.length > 0) schedule()
  }

  /**
   * Answers a quarter of all current requests, and the others in the next turns. With all at once the same clients would form one
   * batch again and again, and Node would be idle for a fifth of the time while PostgreSQL works (64 connections; halves: a tenth).
   */
  function answerSome(): void {
    const unanswered = answers.reduce((sum, { requests, doneCount }) => sum + requests.length - doneCount, 0)
    let left = Math.max(answersAtOnceMin, Math.ceil((unanswered + collected + inFlight) / 4))
    for (let first = answers[0]; first !== undefined && left > 0; first = answers[0]) {
      const until = Math.min(first.requests.length, first.doneCount + left)
      left -= until - first.doneCount
      while (first.doneCount < until) {
        const request = first.requests[first.doneCount++]!
        callBack(request, null, first.access[request.index]!)
      }
      if (until === first.requests.length) answers.shift()
    }
  }

  async function send({ questions, requests }: Batch): Promise<void> {
    collected -= requests.length
    inFlight = requests.length
    try {
      answers.push({ requests, access: await findAccess(db, questions), doneCount: 0 })
    } catch (error) {
      for (const request of requests) callBack(request, error, null)
    }
    inFlight = 0
    schedule()
  }

  function openBatch(): Batch {
    const last = batches.at(-1)
    if (last !== undefined && last.requests.length < batchMax) return last
    const next: Batch = { questions: [], keys: new Map(), requests: [] }
    batches.push(next)
    return next
  }

  function add(batch: Batch, index: number, done: OnAccess): void {
    batch.requests.push({ index, done })
    collected += 1
    if (inFlight === 0) schedule()
  }

  return {
    key(token, done) {
      const batch = openBatch()
      let index = batch.keys.get(token)
      if (index === undefined) {
        if (!isApiKey(token)) return false
        index = batch.questions.push({ kind: 'key', hash: hashApiKey(token) }) - 1
        batch.keys.set(token, index)
      }
      add(batch, index, done)
      return true
    },
    login(login, done) {
      const batch = openBatch()
      add(batch, batch.questions.push({ kind: 'login', ...login }) - 1, done)
    },
  }
}

/** A callback that throws is a bug: it ends the process, but only after the other requests have their answers. */
function callBack(request: Request, error: unknown, access: Access | null): void {
  try {
    request.done(error, access)
  } catch (thrown) {
    process.nextTick(() => {
      throw thrown
    })
  }
}
