import type { ClientConfig } from 'pg'
import { CheckedStream } from './checked-stream.ts'
import { tlsOptions } from './connection-tls.ts'
import type { ConnectionTarget } from './connection-url.ts'
import type { ReplyLimits } from './reply-check.ts'

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
