import { connect as open } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect, type Database, isOutOfConnections } from '../../../db/database.ts'
import { retryUntilAccepted } from '../../../lib/clock.ts'
import { StepFailure } from '../../../lib/step-failure.ts'
import { isScramVerifier, ownerConnectionsMax, ownerDatabase, ownerRole } from '../../database.ts'
import type { Activity } from '../driver.ts'
import type { Control } from './instance.ts'

/** Much more than a checkpoint takes on a busy disk. Another job may wait for the same worker. */
const statementMsMax = 5 * 60_000
const silentMsMore = 30_000

/** Several times the authentication timeout of 10 s, after which connections without a password are closed. */
const connectMsMax = 60_000

/** More than any session of ours is answered. The longest answer lists WAL segments, with 50 bytes for each 16 MB. */
const replies = { bytesMax: 1024 ** 2, rowsMax: 20_000 }

export type ControlOptions = { name: string; signal: AbortSignal; statementMsMax?: number | undefined }

type ControlSession = { sql: Database; close(): Promise<void> }

/**
 * A session as superuser, which the caller closes. A customer's session may block it, so every wait is limited: the signal
 * ends the session, a slow statement is cancelled, and if that does not help the connection is closed. The account of the server can put
 * another program in the place of the socket, so answers are limited and checked too.
 */
export async function openControl(control: Control, options: ControlOptions): Promise<ControlSession> {
  const { name, signal } = options
  signal.throwIfAborted()
  const ms = options.statementMsMax ?? statementMsMax
  const limits = { statementMsMax: ms, silentMsMax: ms + silentMsMore, replies }
  const sql = connect(control, { name, connectionsMax: 1, ...limits })
  const end = () => void sql.end({ timeout: 0 })
  signal.addEventListener('abort', end, { once: true })
  const close = async () => {
    signal.removeEventListener('abort', end)
    await sql.end({ timeout: 5 })
  }
  try {
    await waitForConnection(sql, signal)
  } catch (error) {
    await close()
    signal.throwIfAborted()
    throw error
  }
  return { sql, close }
}

/** A session for one piece of work. */
export async function withControl<T>(
  control: Control,
  options: ControlOptions,
  work: (sql: Database) => Promise<T>,
): Promise<T> {
  const { sql, close } = await openControl(control, options)
  try {
    return await work(sql)
  } finally {
    await close()
  }
}

/** Clients may use every connection now, also those that have not shown a password. */
async function waitForConnection(sql: Database, signal: AbortSignal): Promise<void> {
  const deadline = Date.now() + connectMsMax
  await retryUntilAccepted(
    {
      isTransient: isOutOfConnections,
      onRetry(cause) {
        if (Date.now() > deadline) throw new StepFailure('All connections of the database are taken.', { cause })
      },
      pause: (ms) => sleep(ms, undefined, { signal }),
      pauseMsMax: 100,
    },
    async () => sql`select 1`,
  )
}

/** ALTER ROLE takes no parameters, so the verifier becomes part of the text and its format is checked first. */
export async function setOwnerPassword(control: Control, passwordVerifier: string, signal: AbortSignal): Promise<void> {
  if (!isScramVerifier(passwordVerifier)) throw new Error('not a SCRAM verifier')
  const change = `alter role ${ownerRole} login connection limit ${ownerConnectionsMax} password '${passwordVerifier}'`
  await withControl(control, { name: 'keyhook platform', signal }, (sql) => sql.unsafe(change)).catch((error) => {
    signal.throwIfAborted()
    throw error
  })
}

const acceptMsMax = 10_000

/** PostgreSQL's SSLRequest. Any answer shows that connections are accepted. */
const sslRequest = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])

/** Checks over TCP, as clients connect, and not over our own socket. */
export async function waitUntilAccepting(address: { host: string; port: number }, signal: AbortSignal): Promise<void> {
  const deadline = Date.now() + acceptMsMax
  const host = address.host === '0.0.0.0' ? '127.0.0.1' : address.host === '::' ? '::1' : address.host
  while (!(await answers(host, address.port))) {
    signal.throwIfAborted()
    if (Date.now() > deadline) throw new Error(`no connections are accepted on ${address.host}:${address.port}`)
    await sleep(20)
  }
}

function answers(host: string, port: number): Promise<boolean> {
  return new Promise((done) => {
    const socket = open({ host, port }, () => socket.write(sslRequest))
    socket.setTimeout(1_000, () => socket.destroy())
    socket.once('data', () => {
      done(true)
      socket.destroy()
    })
    socket.on('error', () => {})
    socket.on('close', () => done(false))
  })
}

const countMax = 100_000

const isCount = (value: unknown, max: number): value is number =>
  Number.isInteger(value) && 0 <= Number(value) && Number(value) <= max

/** Sessions of clients only: neither ours nor workers of PostgreSQL. */
export async function readActivity(control: Control, signal: AbortSignal): Promise<Activity> {
  const [row] = await withControl(
    control,
    { name: 'keyhook activity', signal },
    (sql) => sql<Partial<Activity>[]>`
      select pg_database_size(${ownerDatabase}::text)::float8 as "sizeBytes",
        (select count(*)::int from pg_stat_activity where backend_type = 'client backend' and usename = ${ownerRole}) as connections,
        (select case when rolconnlimit >= 0 then rolconnlimit else current_setting('max_connections')::int end
          from pg_roles where rolname = ${ownerRole}) as "connectionsMax"`,
  )
  // A program in the place of the server may answer anything, and the statistics of all databases are recorded together.
  const { sizeBytes, connections, connectionsMax } = row ?? {}
  if (
    !isCount(sizeBytes, Number.MAX_SAFE_INTEGER) ||
    !isCount(connections, countMax) ||
    !isCount(connectionsMax, countMax)
  )
    throw new Error('the server answered a statistic that is no number')
  return { sizeBytes, connections, connectionsMax }
}
