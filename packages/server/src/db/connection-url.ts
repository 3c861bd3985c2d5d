import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { type ConnectionOptions, checkServerIdentity, createSecureContext, getCACertificates } from 'node:tls'
import { parse } from 'pg-connection-string'

/** Where PostgreSQL is and how to connect. A host that begins with a slash is the directory of a socket. */
export type ConnectionTarget = {
  host: string
  port: number
  user: string
  password: string
  database: string
  /** Absent: without TLS. */
  tls?: Tls
  /** Settings of every session, `application_name` and `options` among them. */
  settings?: Readonly<Record<string, string>>
  prepare?: boolean
  connectSeconds?: number
}

type Environment = Readonly<Record<string, string | undefined>>

/** Variables for what is not in the URL, as PostgreSQL's own programs use them. */
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

/** Parameters of libpq that are accepted with these values, which describe what Keyhook does anyway. */
const acceptedValues: ReadonlyMap<string, readonly string[]> = new Map([
  ['channel_binding', ['prefer', 'disable']],
  ['client_encoding', ['UTF8', 'utf8']],
  ['gssencmode', ['prefer', 'disable']],
  ['sslnegotiation', ['postgres']],
  ['target_session_attrs', ['any']],
])

/** Other parameters of libpq. They are not settings of a session, so the server would reject them. */
const notAccepted =
  /^(ssl|gss|krb|keepalives|oauth_|require|service|hostaddr|passfile|replication|load_balance_hosts|fallback_|database$)/

const accepted = 'host, port, user, password, dbname, sslmode, sslrootcert, sslcert, sslkey, connect_timeout, prepare'

/**
 * Reads DATABASE_URL. Each problem continues a sentence that begins with the name of the URL, and repeats nothing that may be a
 * part of a password.
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
  // As in psql: certificate files from the environment count only where certificates are checked; `system` turns that on.
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
  if (host.includes(',')) problems.push(severalHosts)
  const user = take('user') ?? systemUser()
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
    // PostgreSQL does not encrypt a socket file, which cannot be read by others on the network.
    ...('tls' in tls && tls.tls !== null && !isSocket && { tls: tls.tls }),
  }
  const options = take('options')
  for (const [name, value] of given) {
    const problem = settingProblem(name, value)
    if (problem !== null) problems.push(problem)
    else if (acceptedValues.has(name)) given.delete(name)
  }
  if (problems.length > 0) return { problems }
  return { target: { ...target, settings: { ...Object.fromEntries(given), ...(options && { options }) } } }
}

const severalHosts = 'names several hosts, and Keyhook takes one: a name or a proxy that leads to the primary'
const notUrl =
  'is not a URL such as postgres://user:password@host:5432/database (in a password write % / ? # @ as %25 %2F %3F %23 %40)'

/** Everything in the URL by the names of the parameters, or what is wrong with it. */
function parametersOf(url: string): Map<string, string> | string {
  const [address = '', query = ''] = url.split(/\?(.*)/s)
  // The parser repairs an incomplete % escape, and would change a password.
  if (!/^postgres(ql)?:\/\/[^#]*$/.test(address) || query.includes('#') || /%(?![\da-f]{2})/i.test(address))
    return notUrl
  if (address.split('/')[2]!.split('@').at(-1)!.includes(',')) return severalHosts
  const parameters = new Map<string, string>()
  try {
    // Without the query: the parser would read the certificate files named there.
    const { host, port, user, password, database } = parse(address.replaceAll(' ', '%20'))
    for (const [name, value] of Object.entries({ host, port, user, password, dbname: database })) {
      if (value) parameters.set(name, value)
    }
  } catch {
    return notUrl
  }
  const named = [...new URLSearchParams(query)]
  if (new Set(named.map(([name]) => name)).size < named.length) return 'has one parameter twice'
  // An @ in the path was part of a password with an unescaped slash.
  if (parameters.get('dbname')?.includes('@')) return notUrl
  for (const [name, value] of named) parameters.set(name, value)
  return [...parameters.values()].some((value) => value.includes('\0')) ? notUrl : parameters
}

function settingProblem(name: string, value: string): string | null {
  // Either may be a part of a password in which ? or & was not written as %3F or %26.
  if (!/^[A-Za-z_][\w.]*$/.test(name) || value === '') return 'has a parameter without a name or without a value'
  const values = acceptedValues.get(name)
  if (values !== undefined) {
    return values.includes(value) ? null : `has a ${name} that Keyhook does not take (it takes ${values.join(', ')})`
  }
  if (!notAccepted.test(name)) return null
  return `has the parameter ${name}, which Keyhook does not take (it takes ${accepted}, and settings of a session)`
}

/** The default of PostgreSQL's own programs. In a container the user id may have no name. */
function systemUser(): string | null {
  try {
    return userInfo().username
  } catch {
    return null
  }
}

const modes = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const

/** `prefer` becomes `require` or no TLS when the server has been asked. Files are here as their text. */
export type Tls = {
  mode: 'prefer' | 'require' | 'verify-ca' | 'verify-full'
  ca?: string
  cert?: string
  key?: string
}

type Given = Record<'sslmode' | 'sslrootcert' | 'sslcert' | 'sslkey', string | undefined>

/**
 * The parameters mean what they mean to libpq, with three differences: without sslmode there is no TLS, there are no default
 * file names, and a combination that looks like a check but makes none is rejected.
 */
function readTls(given: Given): { tls: Tls | null } | { problems: string[] } {
  const { sslrootcert, sslcert, sslkey } = given
  const sslmode = given.sslmode ?? (sslrootcert === 'system' ? 'verify-full' : undefined)
  if (sslmode === 'disable') return { tls: null }
  if (sslmode !== undefined && !modes.some((mode) => mode === sslmode)) {
    return { problems: [`has an sslmode that is not one of ${modes.join(', ')}`] }
  }
  if (sslmode === undefined || sslmode === 'allow' || sslmode === 'prefer') {
    if (sslrootcert ?? sslcert ?? sslkey) {
      return { problems: ['names a certificate, which needs sslmode=require, verify-ca or verify-full'] }
    }
    return { tls: sslmode === undefined ? null : { mode: 'prefer' } }
  }

  const problems: string[] = []
  if (sslrootcert === 'system' && sslmode !== 'verify-full')
    problems.push('needs sslmode=verify-full with sslrootcert=system')
  if (sslrootcert === undefined && sslmode === 'verify-ca') {
    problems.push('needs sslrootcert with sslmode=verify-ca: a public authority signs for everyone')
  }
  if ((sslcert === undefined) !== (sslkey === undefined))
    problems.push('names one of sslcert and sslkey, and needs both')
  const read = (name: keyof Given, check: (pem: string) => unknown): string | undefined => {
    try {
      const pem = given[name] && readFileSync(given[name], 'utf8')
      if (pem !== undefined) check(pem)
      return pem
    } catch (error) {
      problems.push(`names an ${name} that cannot be used (${(error as Error).message})`)
    }
  }
  const ca = sslrootcert === 'system' ? systemAuthorities() : read('sslrootcert', (pem) => new X509Certificate(pem))
  if (ca === '') problems.push('has sslrootcert=system, and this machine has no certificate authorities')
  const cert = read('sslcert', (pem) => new X509Certificate(pem))
  const key = read('sslkey', (pem) => createSecureContext({ key: pem, ...(cert && { cert }) }))
  if (problems.length > 0) return { problems }
  // As in libpq: with a file of authorities `require` checks the certificate.
  const mode = sslmode === 'require' && ca !== undefined ? 'verify-ca' : (sslmode as Tls['mode'])
  return { tls: { mode, ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) } }
}

const systemAuthorities = (): string => getCACertificates('system').join('\n')

/** The host is compared by us: the driver would compare an IP address with `localhost`. */
export function tlsOptions({ host, tls }: { host: string; tls?: Tls }): ConnectionOptions | false {
  if (tls === undefined) return false
  const { mode, ...files } = tls
  return {
    ...files,
    rejectUnauthorized: mode === 'verify-ca' || mode === 'verify-full',
    checkServerIdentity: (_, shown) => (mode === 'verify-full' ? checkServerIdentity(host, shown) : undefined),
  }
}
