import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, type ClientConfig } from 'pg'
import { type ConnectionTarget, tlsOptions } from './connection-url.ts'
import { UnsuitableDatabase } from './errors.ts'
import { CheckedStream, type ReplyLimits } from './reply-check.ts'

/**
 * `silentMsMax`: how long an answer may take before the connection counts as dead. `statementMsMax`: how long before PostgreSQL
 * itself ends the statement. Without them there is no limit. `replies`: the server is on a socket of this machine, and not trusted.
 */
export type ConnectOptions = { name: string; silentMsMax?: number; statementMsMax?: number; replies?: ReplyLimits }

/** What `pg` needs to connect. Everything is given: what is missing, it would read from the environment. */
export function clientConfig(target: ConnectionTarget, { name, statementMsMax, silentMsMax, replies }: ConnectOptions) {
  const { host, port, user, password, database, settings = {}, connectSeconds = 10 } = target
  const { application_name = name, options: sessionOptions, ...rest } = settings
  const all = { ...(statementMsMax !== undefined && { statement_timeout: String(statementMsMax) }), ...rest }
  // Settings as -c options: `pg` knows few by name, and reads a limit such as 5s as 5 ms.
  const flags = Object.entries(all).map(([name, value]) => `-c ${name}=${value.replace(/[\\\s]/g, '\\$&')}`)
  const options = [sessionOptions, ...flags].filter((one) => one !== undefined).join(' ')
  return {
    host,
    port,
    user,
    // A function, because `pg` looks for a password file when the password is empty.
    password: () => password,
    database,
    application_name,
    // Without options `pg` would read PGOPTIONS, which counts for DATABASE_URL only, and is among its settings there.
    ...((options !== '' || process.env.PGOPTIONS) && { options: options || ' ' }),
    ...(silentMsMax !== undefined && { query_timeout: silentMsMax }),
    ...(replies !== undefined && { stream: () => new CheckedStream(replies) }),
    ssl: tlsOptions(target),
    sslnegotiation: 'postgres',
    connectionTimeoutMillis: connectSeconds * 1_000,
    // Idle connections through a firewall stay open, and a dead one is noticed. The system's own delay is two hours.
    keepAlive: true,
    keepAliveInitialDelayMillis: 60_000,
  } satisfies ClientConfig & { sslnegotiation: string }
}

/** PostgreSQL's SSLRequest message. */
const request = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

/**
 * Asks the server once whether it supports TLS, because `pg` does not know `prefer`. The result holds for the life of the process,
 * so that a running process cannot be downgraded.
 */
export async function settleTls(target: ConnectionTarget): Promise<ConnectionTarget> {
  const { tls, ...plain } = target
  if (tls === undefined) return target
  const isOffered = await offersTls(target)
  if (isOffered) return { ...target, tls: { ...tls, mode: tls.mode === 'prefer' ? 'require' : tls.mode } }
  if (tls.mode === 'prefer') return plain
  throw new UnsuitableDatabase(
    `DATABASE_URL: the server at ${target.host}:${target.port} does not support TLS, which sslmode=${tls.mode} requires.`,
  )
}

async function offersTls({ host, port, connectSeconds = 10 }: ConnectionTarget): Promise<boolean> {
  const socket = connect({ host, port })
  try {
    const answer = await firstByte(socket, connectSeconds * 1_000)
    if (answer !== 'S' && answer !== 'N')
      throw unavailable('ECONNRESET', 'the server did not answer as PostgreSQL does')
    return answer === 'S'
  } finally {
    socket.destroy()
  }
}

const firstByte = (socket: Socket, msMax: number): Promise<string> =>
  new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(unavailable('ETIMEDOUT', `no answer after ${msMax} ms`)), msMax)
    socket.once('connect', () => socket.write(request))
    socket.once('data', (bytes) => resolve(bytes.toString('latin1', 0, 1)))
    socket.once('error', reject)
    socket.once('close', () => {
      clearTimeout(late)
      reject(unavailable('ECONNRESET', 'the connection was closed'))
    })
  })

/** With a code that `isUnavailable` knows. */
const unavailable = (code: string, why: string): Error => Object.assign(new Error(why), { code })

const retryMs = 200

/**
 * Notifications of one channel, on their own connection, which is made again when it is lost. Rejects when the first connection
 * cannot be made. Notifications in between are missed: they are hints.
 */
export async function listen(
  config: ClientConfig,
  channel: string,
  onPayload: (payload: string) => void,
): Promise<() => Promise<void>> {
  let isStopped = false
  let current: Client | undefined

  async function open(): Promise<void> {
    const { promise: lost, resolve: onLost } = Promise.withResolvers<void>()
    const client = new Client(config)
    client.on('error', () => onLost())
    client.on('end', () => onLost())
    client.on('notification', ({ payload }) => onPayload(payload ?? ''))
    try {
      await client.connect()
      await client.query(`listen ${client.escapeIdentifier(channel)}`)
    } catch (error) {
      await client.end().catch(() => {})
      throw error
    }
    current = client
    if (isStopped) await client.end()
    void lost.then(reopen)
  }

  async function reopen(): Promise<void> {
    while (!isStopped) {
      try {
        await open()
        return
      } catch {
        await sleep(retryMs, undefined, { ref: false })
      }
    }
  }

  await open()
  return async () => {
    isStopped = true
    await current?.end()
  }
}
