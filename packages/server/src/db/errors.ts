import { DatabaseError } from 'pg'

/* Classes of errors. Five-character codes are PostgreSQL's SQLSTATE, the others are Node's. */

/** PostgreSQL was reached, but cannot be used as it is set up. The message tells the operator what to change. */
export class UnsuitableDatabase extends Error {}

const connectionCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  // No file descriptor is free for a connection; there will be when others have ended.
  'EMFILE',
  'ENFILE',
])

/** Lost connections that the driver reports by a message and no code. */
const connectionMessages = new RegExp(
  `^(${[
    'Connection terminated',
    'timeout exceeded when trying to connect',
    'timeout expired',
    'Query read timeout',
    'Client has encountered a connection error',
    'Client was closed and is not queryable',
    'Cannot use a pool after calling end',
    'The server does not support SSL connections',
    'There was an error establishing an SSL connection',
  ].join('|')})`,
)

/** True when PostgreSQL could not be reached or is going away: try again later, nothing is wrong with the request. */
export function isUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const code = codeOf(error)
  // ENOENT is only an outage when it is the server's socket that is missing.
  if (code === 'ENOENT') return (error as NodeJS.ErrnoException).syscall === 'connect'
  // Class 08: connection exceptions; 57P0x: shutdown or start-up; 25P03: ended while idle; 53300: no connection left; 25006: a standby.
  if (connectionCodes.has(code) || /^(08...|57P0[1-5]|25P0[34]|53300|25006)$/.test(code)) return true
  if (isTlsFailure(error) || connectionMessages.test(error.message)) return true
  return code === '55000' && /not currently accepting connections/.test(error.message)
}

const codeOf = (error: unknown): string => (error instanceof Error && 'code' in error ? String(error.code) : '')

const hasCode = (error: unknown, codes: RegExp): boolean => error instanceof DatabaseError && codes.test(codeOf(error))

/**
 * True when PostgreSQL cannot store what it was given: wrong data (class 22), a broken constraint (23), too much of it (54), or
 * an internal error caused by it (XX). Sending the same again changes nothing.
 */
export const isDataError = (error: unknown): boolean => hasCode(error, /^(22|23|54|XX)/)

export const isMissingTable = (error: unknown): boolean => hasCode(error, /^(42P01|3F000)$/)

/** True when PostgreSQL was reached and rejected the statement: nothing of it was written. */
export const wasRejected = (error: unknown): boolean => error instanceof DatabaseError && !isUnavailable(error)

/**
 * True when PostgreSQL rejected the login: a wrong password, no such role or database, no right to it, or a setting of the URL
 * that it does not know or accept.
 */
export function isLoginRejected(error: unknown): error is Error {
  // The driver's own errors during the login, such as a missing password, or a server that does not know ours.
  if (error instanceof Error && error.message.startsWith('SASL: ')) return true
  if (!(error instanceof DatabaseError)) return false
  const code = codeOf(error)
  return /^(28...|3D000|42501)$/.test(code) || (error.severity === 'FATAL' && /^(22023|42704|55P02)$/.test(code))
}

export const isUniqueViolation = (error: unknown, constraint: string | RegExp): boolean => {
  if (!(error instanceof DatabaseError) || error.code !== '23505') return false
  const name = error.constraint ?? ''
  return typeof constraint === 'string' ? name === constraint : constraint.test(name)
}

/**
 * True when PostgreSQL rolled back what may succeed another time: a lock was held too long (55P03), a deadlock or serialization
 * failure (40P01, 40001), a time limit (57014, 25P03, 25P04), no disk space or memory (53100, 53200).
 */
export const isTransient = (error: unknown): boolean => hasCode(error, /^(55P03|40P01|40001|57014|25P0[34]|53[12]00)$/)

export const isOutOfConnections = (error: unknown): boolean => hasCode(error, /^53300$/)
export const isStatementTimeout = (error: unknown): boolean => hasCode(error, /^57014$/)
export const isLockTimeout = (error: unknown): boolean => hasCode(error, /^55P03$/)

/**
 * True when the server does not know a statement that this connection had prepared (26000), knows one that it had not (42P05,
 * behind a pooler), or has prepared it for other columns.
 */
export const isStalePreparedStatement = (error: unknown): boolean =>
  hasCode(error, /^(26000|42P05)$/) ||
  (hasCode(error, /^0A000$/) && /cached plan must not change result type/.test((error as Error).message))

/** Node's and OpenSSL's codes for a certificate that is not accepted, and for a failed handshake. */
const codes = /CERT|SELF_SIGNED|UNABLE_TO|HOSTNAME_MISMATCH|INVALID_CA|INVALID_PURPOSE|CRL|^ERR_SSL_|^EPROTO$/

/** True when TLS with PostgreSQL failed. A running process tries again: certificates are renewed. */
export const isTlsFailure = (error: unknown): error is NodeJS.ErrnoException =>
  error instanceof Error && 'code' in error && codes.test(String(error.code))

/** One line for the operator. */
export function tlsFailureText({ code = '', message }: NodeJS.ErrnoException): string {
  // Without Node's advice, which does not apply here, and without OpenSSL's source file.
  const text = message
    .replace(/; if the root CA is installed locally.*$/s, '')
    .replace(/^[0-9A-F]+:error:[0-9A-F]+:([^:]*):[^:]*:([^:]*):.*$/s, '$1: $2')
  return `TLS with PostgreSQL failed: ${text.trim()} (${code}).${remedy(code)}`
}

function remedy(code: string): string {
  if (/ALTNAME|HOSTNAME/.test(code)) return ' The host in the URL has to be a name in the certificate.'
  if (!/SELF_SIGNED|UNABLE_TO/.test(code)) return ''
  return ' sslrootcert=FILE in the URL sets the trusted authorities.'
}
