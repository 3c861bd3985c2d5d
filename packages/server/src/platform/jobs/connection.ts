import type { ConstructorOptions } from 'pg-boss'
import { tlsOptions } from '../../db/connection/connection-tls.ts'
import type { ConnectionTarget } from '../../db/database.ts'

/** The target as options of pg-boss. Every option is set, or the driver would read it from the environment. */
export function connectionOf(target: ConnectionTarget) {
  const { host, port, user, password, database, settings = {}, connectSeconds = 10 } = target
  const { application_name = 'keyhook jobs', options, ...rest } = settings
  // The driver knows few settings by name, and reads a limit such as 5s as 5 ms.
  const named = Object.entries(rest).map(([name, value]) => `-c ${name}=${value.replace(/[\\\s]/g, '\\$&')}`)
  const all = [options, ...named].filter((one) => one !== undefined).join(' ')
  return {
    host,
    port,
    user,
    password,
    database,
    application_name,
    ...(all !== '' && { options: all }),
    ssl: tlsOptions(target),
    sslnegotiation: 'postgres',
    connectionTimeoutMillis: connectSeconds * 1_000,
  } satisfies ConstructorOptions & { sslnegotiation: string }
}
