import { DatabaseError, type PoolClient, type QueryConfig, type QueryResult } from 'pg'
import { isStalePreparedStatement, isUnavailable } from './errors.ts'
import type { Compiled, Row, Rows } from './statement.ts'

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
