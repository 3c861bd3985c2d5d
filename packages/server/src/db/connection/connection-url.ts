import { userInfo } from 'node:os'
import { readTls, type Tls } from './connection-tls.ts'

/**
 * Where PostgreSQL is and how it is spoken to, in plain data: both drivers are told from this. A host that begins with a slash
 * is the directory of a socket.
 */
export type ConnectionTarget = {
  host: string
  port: number
  user: string
  password: string
  database: string
  /** Absent: without TLS. */
  tls?: Tls
  /** Settings that every session begins with, `application_name` and `options` among them. */
  settings?: Readonly<Record<string, string>>
  prepare?: boolean
  connectSeconds?: number
}

type Environment = Readonly<Record<string, string | undefined>>

/** What the URL leaves open is read from these, as by PostgreSQL's own programs. */
const fallbacks: Readonly<Record<string, string>> = {
  host: 'PGHOST',
  port: 'PGPORT',
  user: 'PGUSER',
  password: 'PGPASSWORD',
  dbname: 'PGDATABASE',
  options: 'PGOPTIONS',
  sslmode: 'PGSSLMODE',
  sslrootcert: 'PGSSLROOTCERT',
  sslcert: 'PGSSLCERT',
  sslkey: 'PGSSLKEY',
}

/** Parameters of PostgreSQL's own programs with the values that say what is done here anyway. */
const doneAnyway: ReadonlyMap<string, readonly string[]> = new Map([
  ['channel_binding', ['prefer', 'disable']],
  ['client_encoding', ['UTF8', 'utf8']],
  ['gssencmode', ['prefer', 'disable']],
  ['sslnegotiation', ['postgres']],
  ['target_session_attrs', ['any']],
])

/** Theirs as well, and not ours. No setting of a session is called so: sent to the server, they would mean nothing. */
const notTaken =
  /^(ssl|gss|krb|keepalives|oauth_|require|service|hostaddr|passfile|replication|load_balance_hosts|fallback_|database$)/

const taken = 'host, port, user, password, dbname, sslmode, sslrootcert, sslcert, sslkey, connect_timeout, prepare'

/**
 * Reads DATABASE_URL, once for both drivers, which would each read it in a way of its own. The problems continue a sentence
 * about the URL, and repeat nothing that may be a piece of a password.
 */
export function readConnectionUrl(
  url: string,
  environment: Environment,
): { target: ConnectionTarget } | { problems: string[] } {
  const given = parametersOf(url)
  if (typeof given === 'string') return { problems: [given] }
  const problems: string[] = []
  const take = (name: string): string | undefined => {
    const value = given.get(name) || environment[fallbacks[name] ?? ''] || undefined
    given.delete(name)
    return value
  }
  // Files that the environment names are for whoever checks, and ask for no check by themselves; `system` does, also of psql.
  const checks = /^(require|verify-)/.test(given.get('sslmode') || environment.PGSSLMODE || '')
  const takeFile = (name: string): string | undefined => {
    const named = given.has(name)
    const value = take(name)
    return named || checks || value === 'system' ? value : undefined
  }
  const number = (name: string, fallback: number, max: number): number => {
    const text = take(name) ?? String(fallback)
    const value = /^\d{1,5}$/.test(text) ? Number(text) : 0
    if (value < 1 || value > max) problems.push(`has a ${name} that is not a number from 1 to ${max}`)
    return value
  }

  const host = take('host') ?? 'localhost'
  if (host.includes(',')) problems.push(several)
  const user = take('user') ?? ownName()
  if (user === null) problems.push('names no user')
  const isSocket = host.startsWith('/')
  const tls = readTls({
    sslmode: take('sslmode'),
    sslrootcert: takeFile('sslrootcert'),
    sslcert: takeFile('sslcert'),
    sslkey: takeFile('sslkey'),
  })
  if ('problems' in tls && !isSocket) problems.push(...tls.problems)
  const prepare = take('prepare') ?? 'true'
  if (!/^(true|false)$/.test(prepare)) problems.push('has a prepare that is neither true nor false')
  const target: ConnectionTarget = {
    host,
    port: number('port', 5432, 65_535),
    user: user ?? '',
    password: take('password') ?? '',
    database: take('dbname') ?? user ?? '',
    prepare: prepare === 'true',
    connectSeconds: number('connect_timeout', 10, 600),
    // A socket is not encrypted, whatever is asked for: nobody can listen in, and PostgreSQL would refuse to.
    ...('tls' in tls && tls.tls !== null && !isSocket && { tls: tls.tls }),
  }
  const options = take('options')
  for (const [name, value] of given) {
    const problem = settingProblem(name, value)
    if (problem !== null) problems.push(problem)
    else if (doneAnyway.has(name)) given.delete(name)
  }
  if (problems.length > 0) return { problems }
  return { target: { ...target, settings: { ...Object.fromEntries(given), ...(options && { options }) } } }
}

const urlShape = /^postgres(?:ql)?:\/\/(?:([^/?#]*)@)?([^/?#@]*)(?:\/([^?#@]*))?(?:\?([^#]*))?$/
const hostShape = /^(\[[^\]]*\]|[^:]*)(?::([^:]*))?$/
const several = 'names several hosts, and Keyhook takes one: a name or a proxy that leads to the right one'
const notOne =
  'is not a URL such as postgres://user:password@host:5432/database (in a password write % / ? # @ as %25 %2F %3F %23 %40)'

/** Everything that the URL says, by the names that the parameters have, or what is wrong with it. */
function parametersOf(url: string): Map<string, string> | string {
  const parts = urlShape.exec(url)
  if (parts === null) return notOne
  const [, login = '', authority = '', path = '', query = ''] = parts
  if (authority.includes(',')) return several
  const place = hostShape.exec(authority)
  if (place === null || !/^\d*$/.test(place[2] ?? '')) return notOne
  const colon = login.indexOf(':')
  const [user, password] = colon < 0 ? [login, ''] : [login.slice(0, colon), login.slice(colon + 1)]
  const host = place[1]!.replace(/^\[(.*)\]$/, '$1')
  const parameters = new Map<string, string>()
  try {
    for (const [name, text] of Object.entries({ host, port: place[2] ?? '', user, password, dbname: path })) {
      if (text !== '') parameters.set(name, decodeURIComponent(text))
    }
  } catch {
    return notOne
  }
  const named = [...new URLSearchParams(query)]
  if (new Set(named.map(([name]) => name)).size < named.length) return 'says one parameter twice'
  for (const [name, value] of named) parameters.set(name, value)
  return [...parameters.values()].some((value) => value.includes('\0')) ? notOne : parameters
}

function settingProblem(name: string, value: string): string | null {
  // Either may be a piece of a password in which ? or & was not written as %3F or %26.
  if (!/^[A-Za-z_][\w.]*$/.test(name) || value === '') return 'has a parameter without a name or without a value'
  const values = doneAnyway.get(name)
  if (values !== undefined) {
    return values.includes(value) ? null : `has a ${name} that Keyhook does not take (it takes ${values.join(', ')})`
  }
  if (!notTaken.test(name)) return null
  return `has the parameter ${name}, which Keyhook does not take (it takes ${taken}, and settings of a session)`
}

/** Whom PostgreSQL's own programs take where none is named. In a container there may be no name to the user's id. */
function ownName(): string | null {
  try {
    return userInfo().username
  } catch {
    return null
  }
}
