import { createHash } from 'node:crypto'
import { DatabaseError, type PoolClient, type QueryConfig, type QueryResult } from 'pg'
import { isStalePreparedStatement, isUnavailable } from './errors.ts'

/** Rows, and how many rows the statement returned or changed. */
export type Rows<T> = T & { readonly count: number }
// biome-ignore lint/suspicious/noExplicitAny: columns without a row type may be used as they are.
export type Row = Record<string, any>

type RowOf<T> = T extends readonly (infer R)[] ? R : unknown

type Run = (statement: Fragment) => Promise<unknown>

/**
 * SQL with its values, made by a tagged template. Awaited, it is sent; used as a value of another template, it becomes a part of
 * that one. Values never become part of the text.
 */
export class Statement<T> implements Promise<Rows<T>> {
  readonly strings: readonly string[]
  readonly values: readonly unknown[]
  readonly #run: Run
  #answer: Promise<Rows<T>> | undefined

  constructor(run: Run, strings: readonly string[], values: readonly unknown[]) {
    this.#run = run
    this.strings = strings
    this.values = values
  }

  /** Sends it, once however often it is awaited. */
  run(): Promise<Rows<T>> {
    this.#answer ??= this.#run(this) as Promise<Rows<T>>
    return this.#answer
  }

  /** The first row, or null. */
  async first(): Promise<RowOf<T> | null> {
    return ((await this.run()) as RowOf<T>[])[0] ?? null
  }

  /** The row of a statement that always has one. */
  async one(): Promise<RowOf<T>> {
    return ((await this.run()) as RowOf<T>[])[0]!
  }

  /** Whether it returned or changed a row. */
  async exists(): Promise<boolean> {
    return (await this.run()).count > 0
  }

  // biome-ignore lint/suspicious/noThenProperty: a statement is awaited like a promise, and sent only then.
  then<A = Rows<T>, B = never>(
    done?: ((rows: Rows<T>) => A | PromiseLike<A>) | null,
    failed?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.run().then(done, failed)
  }

  catch<B = never>(failed?: ((error: unknown) => B | PromiseLike<B>) | null): Promise<Rows<T> | B> {
    return this.run().catch(failed)
  }

  finally(done?: (() => void) | null): Promise<Rows<T>> {
    return this.run().finally(done)
  }

  readonly [Symbol.toStringTag] = 'Statement'
}

/** A statement that is a part of another one, or whose rows do not matter. */
export type Fragment = Statement<unknown>

export type Compiled = { text: string; name: string; values: unknown[] }

/** Text and name of templates without parts: nearly all of them, so they are assembled once. */
const whole = new WeakMap<readonly string[], { text: string; name: string }>()
const names = new Map<string, string>()

/**
 * The name under which PostgreSQL keeps the prepared statement. A hash of the text: behind a pooler two processes may share a
 * connection, and a name must never stand for another text.
 */
function nameOf(text: string): string {
  const known = names.get(text)
  if (known !== undefined) return known
  const name = `keyhook_${createHash('sha256').update(text).digest('hex').slice(0, 40)}`
  names.set(text, name)
  return name
}

/** SQL that was assembled once at start, with numbered values. */
export const prepared = (text: string, values: readonly unknown[]): Compiled => ({
  text,
  name: nameOf(text),
  values: values as unknown[],
})

export function compile({ strings, values }: Fragment): Compiled {
  const known = whole.get(strings)
  if (known !== undefined) return { ...known, values: values as unknown[] }
  const parts: string[] = []
  const flat: unknown[] = []
  append(strings, values, parts, flat)
  const text = parts.join('')
  const compiled = { text, name: nameOf(text) }
  if (!values.some((value) => value instanceof Statement)) whole.set(strings, compiled)
  return { ...compiled, values: flat }
}

function append(strings: readonly string[], values: readonly unknown[], parts: string[], flat: unknown[]): void {
  strings.forEach((string, i) => {
    parts.push(string)
    if (i >= values.length) return
    const value = values[i]
    if (value instanceof Statement) append(value.strings, value.values, parts, flat)
    else parts.push(`$${flat.push(value)}`)
  })
}

/** A connection of the pool, for as long as one piece of work uses it. */
export type ClientSession = {
  send(compiled: Compiled, isNamed: boolean): Promise<Rows<Row[]>>
  /** One or several statements without values. */
  sendText(text: string): Promise<Rows<Row[]>>
  /** The last statement: nothing can be sent after it. Returns the command that PostgreSQL executed. */
  sendLast(text: 'commit' | 'rollback'): Promise<string>
  release(options?: { close: boolean }): void
}

/** Made once: an error with its stack for each statement would take 3 % of Node's time for a request. */
const released = new Error('The connection was released.')

/**
 * After a lost connection or a timeout every further statement fails at once, so that nothing queues behind a query that
 * hangs. After its last statement too: a stray one would run outside of the transaction.
 */
export function openSession(client: PoolClient): ClientSession {
  let closedBy: unknown
  let isReleased = false
  let isReusable = true

  async function query(config: string | QueryConfig) {
    try {
      return (await client.query(config)) as QueryResult<Row> | QueryResult<Row>[]
    } catch (error) {
      if (isLost(error)) closedBy = error
      if (isLost(error) || isStalePreparedStatement(error)) isReusable = false
      throw error
    }
  }
  const whileOpen = () => {
    if (closedBy !== undefined) throw closedBy
  }

  return {
    async send({ text, name, values }, isNamed) {
      whileOpen()
      return rowsOf(await query(isNamed ? { name, text, values } : { text, values }))
    },
    async sendText(text) {
      whileOpen()
      return rowsOf(await query(text))
    },
    async sendLast(text) {
      whileOpen()
      closedBy = new Error('The transaction has ended.')
      return ((await query(text)) as QueryResult).command
    },
    release({ close } = { close: false }) {
      if (isReleased) return
      isReleased = true
      closedBy ??= released
      client.release(close || !isReusable)
    },
  }
}

/** Any error that is not PostgreSQL's answer: the socket broke, the time is over, or the values could not be sent. */
const isLost = (error: unknown): boolean => !(error instanceof DatabaseError) || isUnavailable(error)

/** Several statements in one text have several results: the last one counts. */
function rowsOf(result: QueryResult<Row> | QueryResult<Row>[]): Rows<Row[]> {
  const last = Array.isArray(result) ? result.at(-1)! : result
  return Object.defineProperty(last.rows, 'count', { value: last.rowCount ?? 0 }) as Rows<Row[]>
}

/**
 * An array of numbers, ids or codes as PostgreSQL reads it. Nothing in them needs a quote, and the driver would look for what to
 * escape in each: with thousands of attempts a second that is a twelfth of Node's time.
 */
export const plainArray = (elements: readonly (number | string | boolean | null)[]): string =>
  `{${elements.map((element) => element ?? 'NULL').join(',')}}`
