import type postgresTypes from 'postgres'
import { tlsOptions } from './connection/connection-tls.ts'
import type { ConnectionTarget } from './connection/connection-url.ts'
import { isTlsFailure } from './connection/tls-failure.ts'
import { postgres } from './postgres-driver.ts'

export type { ConnectionTarget } from './connection/connection-url.ts'

export type Database = postgresTypes.Sql
/** A pool or a transaction: what a query needs, and no more. */
export type Executor = postgresTypes.ISql
/** Writes that must stand or fall together ask for this, so that they cannot be called outside a transaction. */
export type Transaction = postgresTypes.TransactionSql

/**
 * `silentMsMax`: how long an answer may take before the connection is taken for dead. `statementMsMax`: how long before
 * PostgreSQL itself gives up. Without them, as long as it takes.
 */
type ConnectOptions = { name: string; connectionsMax: number; silentMsMax?: number; statementMsMax?: number }

/**
 * How long a transaction may wait for its client. One that is frozen, or gone without a word, would keep its locks for as long as
 * TCP takes to find out, which is two hours by default, and everybody else waits for them. In ours nothing is waited for but
 * PostgreSQL. Said in each transaction, because behind a pooler a session is not ours.
 */
const idleInTransactionMsMax = 5_000

export function connect(target: ConnectionTarget, options: ConnectOptions): Database {
  const { host, port, user, password, database } = target
  const everything = {
    // Lists of one: in a text the driver looks for more, and cuts an address at its colons and a directory at its commas.
    host: [host] as never,
    port: [port] as never,
    ...(host.startsWith('/') && { path: `${host}/.s.PGSQL.${port}` }),
    user,
    password,
    database,
    ssl: tlsOptions(target),
    // Said although they are the driver's own: it would look for others in the environment.
    sslnegotiation: 'postgres',
    prepare: target.prepare ?? true,
    max: options.connectionsMax,
    connect_timeout: target.connectSeconds ?? 10,
    // The driver's own grows to 20 s, for a whole pool at once: after an outage, queries would wait for nothing.
    backoff: () => 0.1 + Math.random() / 10,
    // Notices are for people at a prompt ("relation exists, skipping").
    onnotice: () => {},
    connection: {
      application_name: options.name,
      ...(options.statementMsMax === undefined ? {} : { statement_timeout: options.statementMsMax }),
      ...target.settings,
    },
    silence: options.silentMsMax ?? null,
    on_begin: `; set local idle_in_transaction_session_timeout = ${idleInTransactionMsMax}`,
  }
  return postgres(everything)
}

/**
 * The driver asks for array types on every new connection, in a promise that nobody holds: a server that goes away in that
 * moment would end the process. One answer serves the whole pool, so after the first query it need not ask again.
 */
export async function learnTypesOnce(db: Database): Promise<void> {
  await db`select 1`
  Object.assign(db.options, { fetch_types: false })
}

/** For a query that may wait for somebody: until it is answered, its connection is nobody else's, as if it were a transaction. */
export const sendAlone = <Q extends Promise<unknown>>(query: Q): Q => Object.assign(query, { alone: true })

const connectionLost = new Set([
  'CONNECTION_CLOSED',
  'CONNECTION_DESTROYED',
  'CONNECTION_ENDED',
  'CONNECT_TIMEOUT',
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  // No file is free for a connection: there will be, when others have ended.
  'EMFILE',
  'ENFILE',
])

/** The job queue has a driver of its own, whose lost connections carry words and no code. */
const lostInWords =
  /^(Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection)/

/** True when PostgreSQL could not be reached or is going away: try again later, nothing is wrong with the request. */
export function isUnavailable(error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  // Of a file that is missing it says nothing; of a socket that is missing, that nobody listens.
  if (code === 'ENOENT') return (error as NodeJS.ErrnoException).syscall === 'connect'
  // SQLSTATE class 08: connection exceptions; 57P0x: shutdown or start-up; 53300: no connection left; 25006: a standby.
  if (connectionLost.has(code) || /^(08...|57P0[1-5]|53300|25006)$/.test(code)) return true
  if (isTlsFailure(error) || (error instanceof Error && lostInWords.test(error.message))) return true
  return code === '55000' && /not currently accepting connections/.test((error as Error).message)
}

/**
 * True when PostgreSQL was reached and cannot store what it was given: wrong data (SQLSTATE 22), a broken constraint (23),
 * too much of it (54), or more than it can cope with (XX). Everything else that it refuses may be taken another time.
 */
export const isDataRefused = (error: unknown): boolean =>
  error instanceof postgres.PostgresError && /^(22|23|54|XX)/.test(error.code)

/** True when PostgreSQL was reached and has said no: nothing of it was written. */
export const wasRefused = (error: unknown): boolean => error instanceof postgres.PostgresError && !isUnavailable(error)

/**
 * True when PostgreSQL was reached and would not have us: a wrong password, no such role or database, no right to it, or a
 * setting of the URL that it does not know or take. The job queue has a driver of its own, whose errors are alike in this.
 */
export function isRefusal(error: unknown): error is Error {
  if (!(error instanceof Error) || !('severity' in error) || !('code' in error)) return false
  const code = String(error.code)
  return /^(28...|3D000|42501)$/.test(code) || (error.severity === 'FATAL' && /^(22023|42704|55P02)$/.test(code))
}

export const isUniqueViolation = (error: unknown, constraint: string | RegExp): boolean => {
  if (!(error instanceof postgres.PostgresError) || error.code !== '23505') return false
  const name = error.constraint_name ?? ''
  return typeof constraint === 'string' ? name === constraint : constraint.test(name)
}

/**
 * True when PostgreSQL rolled back what may well succeed another time: somebody held a lock for too long (55P03), two waited
 * for each other (40P01, 40001), the operator's own limits of time came first (57014, 25P03, 25P04), or there is no room left
 * on its disk or in its memory (53100, 53200).
 */
export const isCutShort = (error: unknown): boolean =>
  error instanceof postgres.PostgresError && /^(55P03|40P01|40001|57014|25P0[34]|53[12]00)$/.test(error.code)

/** True when PostgreSQL has no connection left for us. */
export const isOutOfConnections = (error: unknown): boolean =>
  error instanceof postgres.PostgresError && error.code === '53300'

/** True when `statement_timeout` has passed: the statement took longer than whoever sent it allows. */
export const isStatementTimeout = (error: unknown): boolean =>
  error instanceof postgres.PostgresError && error.code === '57014'

/** True when `lock_timeout` has passed: somebody holds what was asked for. */
export const isLockTimeout = (error: unknown): boolean =>
  error instanceof postgres.PostgresError && error.code === '55P03'
