import { type ClientConfig, DatabaseError, Pool, type PoolClient, type QueryResult } from 'pg'
import { tlsOptions } from './connection/connection-tls.ts'
import type { ConnectionTarget } from './connection/connection-url.ts'
import { isStalePreparedStatement, isUnavailable } from './errors.ts'
import { listen } from './listen.ts'
import { type Compiled, compile, type Fragment, prepared, type Row, type Rows, Statement } from './statement.ts'

export type { ConnectionTarget } from './connection/connection-url.ts'
export * from './errors.ts'
export type { Fragment } from './statement.ts'

/** Sends a statement: `await db<Row[]>\`select …\``. Without `await` the template is a part for another one. */
type Query = <T extends readonly Row[] = Row[]>(strings: TemplateStringsArray, ...values: unknown[]) => Statement<T>

/** A pool or a transaction: what a query needs, and no more. */
export type Executor = Query & {
  /** Text that is not a template: several statements, or one that was assembled once at start. Prepared when it has values. */
  unsafe<T extends readonly Row[] = Row[]>(text: string, values?: readonly unknown[]): Promise<Rows<T>>
}

/** Writes that must stand or fall together ask for this, so that they cannot be called outside a transaction. */
export type Transaction = Executor & {
  /** What fails inside is undone, and the transaction goes on. */
  savepoint<T>(work: (tx: Transaction) => Promise<T>): Promise<T>
}

/** One connection that stays ours until it is released. */
export type Session = Executor & { release(): void }

export type Database = Executor & {
  begin<T>(work: (tx: Transaction) => PromiseLike<T>): Promise<T>
  reserve(): Promise<Session>
  /** Calls back for every notification, also after the connection was lost and made anew. Returns a function that stops it. */
  listen(channel: string, onPayload: (payload: string) => void): Promise<() => Promise<void>>
  /** Waits for running queries up to that many seconds, then closes their connections. */
  end(options?: { timeout?: number }): Promise<void>
  readonly target: ConnectionTarget
}

/**
 * `silentMsMax`: how long an answer may take before the connection counts as dead. `statementMsMax`: how long before PostgreSQL
 * itself ends the statement. Without them there is no limit.
 */
export type ConnectOptions = { name: string; connectionsMax: number; silentMsMax?: number; statementMsMax?: number }

/**
 * A transaction whose client froze or vanished would keep its locks until TCP notices, two hours by default. Set in each
 * transaction, because behind a transaction pooler a session is not ours.
 */
const begin = 'begin; set local idle_in_transaction_session_timeout = 5000'

export function connect(target: ConnectionTarget, options: ConnectOptions): Database {
  const config = clientConfig(target, options)
  const isPrepared = target.prepare ?? true
  const pool = new Pool({ ...config, max: options.connectionsMax, idleTimeoutMillis: 0 })
  const busy = new Set<PoolClient>()
  // Whoever uses the connection gets the error from its query; without listeners the event would end the process.
  pool.on('connect', (client) => void client.on('error', () => {}))
  pool.on('error', () => {})
  pool.on('acquire', (client) => void busy.add(client))
  pool.on('release', (_error, client) => void busy.delete(client))

  async function send(client: PoolClient, { text, name, values }: Compiled, isNamed = isPrepared) {
    return rowsOf(await client.query(isNamed ? { name, text, values } : { text, values }))
  }

  /** Outside a transaction, a prepared statement that the server has lost is sent again on another connection. */
  async function sendAlone(compiled: Compiled): Promise<Rows<Row[]>> {
    try {
      return await withClient((client) => send(client, compiled))
    } catch (error) {
      if (!isStalePreparedStatement(error)) throw error
      return withClient((client) => send(client, compiled, false))
    }
  }

  async function withClient<T>(work: (client: PoolClient) => Promise<T>): Promise<T> {
    const client = await pool.connect()
    try {
      const result = await work(client)
      client.release()
      return result
    } catch (error) {
      client.release(isSpoiled(error))
      throw error
    }
  }

  const onPool = executor(
    (statement) => sendAlone(compile(statement)),
    (text, values) =>
      values === undefined ? withClient((client) => sendText(client, text)) : sendAlone(prepared(text, values)),
  )
  const on = (client: PoolClient): Executor =>
    executor(
      (statement) => send(client, compile(statement)),
      (text, values) => (values === undefined ? sendText(client, text) : send(client, prepared(text, values))),
    )

  return Object.assign(onPool, {
    target,
    begin: <T>(work: (tx: Transaction) => PromiseLike<T>) => withClient((client) => transact(client, on(client), work)),
    async reserve() {
      const client = await pool.connect()
      // Its settings and temporary tables go with it: the connection is closed, not given to others.
      return Object.assign(on(client), { release: () => client.release(true) })
    },
    listen: (channel: string, onPayload: (payload: string) => void) => listen(config, channel, onPayload),
    async end({ timeout = 5 } = {}) {
      if (pool.ending) return
      const late = setTimeout(() => {
        for (const client of busy) client.release(true)
      }, timeout * 1_000)
      await pool.end()
      clearTimeout(late)
    },
  })
}

/** A connection is given up when it was lost or hangs, and when what it has prepared differs from what the server knows. */
const isSpoiled = (error: unknown): boolean =>
  !(error instanceof DatabaseError) || isUnavailable(error) || isStalePreparedStatement(error)

async function transact<T>(client: PoolClient, sql: Executor, work: (tx: Transaction) => PromiseLike<T>): Promise<T> {
  await client.query(begin)
  const tx: Transaction = Object.assign(sql, { savepoint: (inner: never) => savepoint(client, tx, inner) as never })
  let result: T
  try {
    result = await work(tx)
  } catch (error) {
    // When the rollback fails too, the connection is lost, and the transaction with it.
    await client.query('rollback')
    throw error
  }
  const { command } = await client.query('commit')
  if (command !== 'COMMIT') throw new Error('The transaction was rolled back: one of its statements had failed.')
  return result
}

async function savepoint<T>(client: PoolClient, tx: Transaction, work: (tx: Transaction) => Promise<T>): Promise<T> {
  await client.query('savepoint keyhook')
  try {
    const result = await work(tx)
    await client.query('release savepoint keyhook')
    return result
  } catch (error) {
    await client.query('rollback to savepoint keyhook')
    throw error
  }
}

function executor(
  run: (statement: Fragment) => Promise<any>,
  unsafe: (text: string, values?: readonly unknown[]) => Promise<any>,
): Executor {
  const query = (strings: TemplateStringsArray, ...values: unknown[]) => new Statement<any>(run, strings, values)
  return Object.assign(query, { unsafe })
}

const sendText = async (client: PoolClient, text: string) => rowsOf(await client.query(text))

/** Several statements in one text answer with a list, of which the last counts. */
function rowsOf(result: QueryResult<Row> | QueryResult<Row>[]): Rows<Row[]> {
  const last = Array.isArray(result) ? result.at(-1)! : result
  return Object.defineProperty(last.rows, 'count', { value: last.rowCount ?? 0 }) as Rows<Row[]>
}

/** Everything is given: what is missing, the driver would look for in the environment. */
export function clientConfig(target: ConnectionTarget, options: Omit<ConnectOptions, 'connectionsMax'>): ClientConfig {
  const { host, port, user, password, database, settings = {}, connectSeconds = 10 } = target
  const { application_name = options.name, options: sessionOptions, ...rest } = settings
  const { statementMsMax, silentMsMax } = options
  const all = { ...(statementMsMax !== undefined && { statement_timeout: String(statementMsMax) }), ...rest }
  // Settings as -c options: the driver knows few by name, and reads a limit such as 5s as 5 ms.
  const flags = Object.entries(all).map(([name, value]) => `-c ${name}=${value.replace(/[\\\s]/g, '\\$&')}`)
  const startOptions = [sessionOptions, ...flags].filter((one) => one !== undefined).join(' ')
  return {
    host,
    port,
    user,
    password,
    database,
    application_name,
    ...(startOptions !== '' && { options: startOptions }),
    ...(silentMsMax !== undefined && { query_timeout: silentMsMax }),
    ssl: tlsOptions(target),
    connectionTimeoutMillis: connectSeconds * 1_000,
  }
}
