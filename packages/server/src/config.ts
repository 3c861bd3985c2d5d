import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { keyTagShape } from './domain/api-key.ts'
import { type RetrySchedule, readRetrySchedule } from './domain/retry-schedule.ts'
import { issuerUrlProblem } from './login/issuer-url.ts'
import { type Network, readNetwork } from './webhooks/address-guard.ts'

/*
 * Settings are environment variables, read once. Every problem is reported in one go, nothing is guessed, and an empty
 * value counts as unset. docs/operating.md shows this table; a test holds the two against each other.
 */
export type Setting<T> = {
  variable: string
  /** What stands in when the variable is unset; null where there is no default. */
  fallback: string | null
  about: string
  secret?: true
  parse(text: string): T
}

/** Thrown by a parser; the message continues the sentence `NAME: "value" …`. */
class Unreadable extends Error {}

const setting = <T>(
  variable: string,
  fallback: string,
  parse: (text: string) => T,
  about: string,
): Setting<T> & { fallback: string } => ({ variable, fallback, parse, about })

const optional = <T>(
  variable: string,
  parse: (text: string) => T,
  about: string,
  secret?: true,
): Setting<T> & { fallback: null } => ({ variable, fallback: null, parse, about, ...(secret && { secret }) })

const integer =
  (min: number, max: number, what: string) =>
  (text: string): number => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
    if (!(value >= min && value <= max)) throw new Unreadable(`is not ${what} (${min} to ${max})`)
    return value
  }

const oneOf =
  <const T extends string>(...allowed: T[]) =>
  (text: string): T => {
    const found = allowed.find((candidate) => candidate === text)
    if (found === undefined) throw new Unreadable(`is not one of ${allowed.join(', ')}`)
    return found
  }

const matching =
  (shape: RegExp, what: string) =>
  (text: string): string => {
    if (!shape.test(text)) throw new Unreadable(`is not ${what}`)
    return text
  }

const text = (value: string): string => value

const postgresUrl = (value: string): string => {
  const url = URL.parse(value)
  if (url === null || !['postgres:', 'postgresql:'].includes(url.protocol)) {
    throw new Unreadable('is not a URL such as postgres://user:password@host:5432/database')
  }
  return value
}

/** One key, or several with the current one first while secrets move from the old key to the new. */
const masterKeys = (value: string): [Buffer, ...Buffer[]] => {
  const keys = value.split(',').map((part) => Buffer.from(part.trim(), 'base64'))
  const readable = value
    .split(',')
    .every((part, i) => keys[i]?.toString('base64') === part.trim() && keys[i].length === 32)
  if (!readable) throw new Unreadable('is not 32 bytes in base64 (make one with: openssl rand -base64 32)')
  return keys as [Buffer, ...Buffer[]]
}

const issuerUrl = (value: string): string => {
  const problem = issuerUrlProblem(value)
  if (problem !== null) throw new Unreadable(problem)
  return value
}

const proxies = (value: string): string[] => {
  const parts = value.split(',').map((part) => part.trim())
  if (!parts.every(isNetwork)) throw new Unreadable('is not a list of addresses or CIDRs such as 10.0.0.0/8,::1')
  return parts
}

function isNetwork(text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/')
  const bitsMax = { 0: -1, 4: 32, 6: 128 }[isIP(address)]!
  return rest.length === 0 && bitsMax > 0 && (bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= bitsMax))
}

const portRange = (value: string): { first: number; last: number } => {
  const [first = 0, last = 0] = (/^(\d{4,5})-(\d{4,5})$/.exec(value) ?? []).slice(1).map(Number)
  if (!(first >= 1_024 && first <= last && last <= 65_535)) {
    throw new Unreadable('is not a range of ports such as 15432-16431 (1024 to 65535)')
  }
  return { first, last }
}

const address = (value: string): string => {
  if (isIP(value) === 0) throw new Unreadable('is not an IP address')
  return value
}

const networks = (value: string): Network[] =>
  value.split(',').map((part) => {
    const network = readNetwork(part.trim())
    if (network === null) throw new Unreadable('is not a list of networks such as 10.0.0.0/8,fd00::/8')
    return network
  })

/** Read at once: a file that is missing should be noticed at the start and not at the first delivery. */
const certificates = (path: string): string => {
  try {
    const pem = readFileSync(path, 'utf8')
    new X509Certificate(pem)
    return pem
  } catch (error) {
    throw new Unreadable(`is not a readable file of PEM certificates (${(error as Error).message})`)
  }
}

const retrySchedule = (value: string): RetrySchedule => {
  const schedule = readRetrySchedule(value)
  if (schedule === null) throw new Unreadable('is not a schedule such as 0s,5s,5m,2h (the first is 0s)')
  return schedule
}

export const settings = {
  port: setting('PORT', '8080', integer(0, 65_535, 'a port'), 'Port to listen on; 0 takes a free one.'),
  host: setting('HOST', '127.0.0.1', text, 'Address to listen on; `0.0.0.0` for all of IPv4, `::` for everything.'),
  databaseUrl: optional('DATABASE_URL', postgresUrl, 'PostgreSQL 15 or newer. Unset: the embedded server.', true),
  databaseConnections: setting(
    'KEYHOOK_DATABASE_CONNECTIONS',
    '10',
    integer(1, 1_000, 'a number of connections'),
    'Most PostgreSQL connections per process; authentication keeps two more of its own.',
  ),
  dataDir: setting(
    'KEYHOOK_DATA_DIR',
    '.keyhook',
    text,
    'Where the embedded server and the generated master key live.',
  ),
  serviceName: setting(
    'KEYHOOK_SERVICE_NAME',
    'Service',
    matching(/^[A-Za-z][A-Za-z0-9-]{0,39}$/, 'a header word (letters, digits and -, up to 40)'),
    'The brand in `X-<name>-Event` and `X-<name>-Signature`.',
  ),
  keyTag: setting(
    'KEYHOOK_KEY_TAG',
    'kh',
    matching(keyTagShape, 'a tag (a lower-case letter, then up to 9 letters or digits)'),
    'The tag that new API keys start with. Keys made under another tag keep working.',
  ),
  masterKeys: optional(
    'KEYHOOK_MASTER_KEY',
    masterKeys,
    '32 bytes, base64, or several separated by commas, the current one first. Seals webhook secrets and signs local login tokens. Required with `DATABASE_URL`; embedded: made on first start as `master.key`.',
    true,
  ),
  oidcIssuer: optional('KEYHOOK_OIDC_ISSUER', issuerUrl, 'OpenID Connect issuer whose login tokens are accepted.'),
  oidcAudience: optional(
    'KEYHOOK_OIDC_AUDIENCE',
    text,
    'The audience (`aud`) those tokens must carry. Required with the issuer.',
  ),
  logLevel: setting(
    'KEYHOOK_LOG_LEVEL',
    'info',
    oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'),
    'Log level; `debug` adds a line for every successful read.',
  ),
  trustedProxies: optional(
    'KEYHOOK_TRUSTED_PROXIES',
    proxies,
    'Addresses or CIDRs, comma-separated, whose `X-Forwarded-For` is believed for audit entries.',
  ),
  requestBytesMax: setting(
    'KEYHOOK_REQUEST_BYTES_MAX',
    '65536',
    integer(1_024, 16_777_216, 'a number of bytes'),
    'Largest request body.',
  ),
  keysPerOrgMax: setting(
    'KEYHOOK_KEYS_PER_ORG_MAX',
    '10000',
    integer(1, 10_000_000, 'a number of keys'),
    'Most active API keys in one organization.',
  ),
  webhooksPerOrgMax: setting(
    'KEYHOOK_WEBHOOKS_PER_ORG_MAX',
    '10000',
    integer(1, 10_000_000, 'a number of webhooks'),
    'Most webhooks in one organization.',
  ),
  databasesHost: setting(
    'KEYHOOK_DATABASES_HOST',
    '127.0.0.1',
    address,
    'Address that the databases of this node listen on. Connections are not encrypted: keep it on a network you trust.',
  ),
  databasesPublicHost: optional(
    'KEYHOOK_DATABASES_PUBLIC_HOST',
    matching(/^[A-Za-z0-9.:-]{1,253}$/, 'a host name or address'),
    'The host shown to clients. Unset: the address above.',
  ),
  databasesPorts: setting(
    'KEYHOOK_DATABASES_PORTS',
    '15432-16431',
    portRange,
    'Ports for the databases of this node, one each.',
  ),
  databasesPerOrgMax: setting(
    'KEYHOOK_DATABASES_PER_ORG_MAX',
    '20',
    integer(1, 10_000, 'a number of databases'),
    'Most databases in one organization.',
  ),
  databasesPerNodeMax: setting(
    'KEYHOOK_DATABASES_PER_NODE_MAX',
    '100',
    integer(1, 10_000, 'a number of databases'),
    'Most databases on this node; an idle one takes about 60 MB of memory.',
  ),
  archivesDir: optional(
    'KEYHOOK_ARCHIVES_DIR',
    text,
    'Where this node keeps backups. Unset: `archives` in the data directory.',
  ),
  backupEveryHours: optional(
    'KEYHOOK_BACKUP_EVERY_HOURS',
    integer(1, 8_760, 'a number of hours'),
    'Back up every database this often. Unset: only when asked.',
  ),
  backupsKept: setting(
    'KEYHOOK_BACKUPS_KEPT',
    '7',
    integer(1, 10_000, 'a number of backups'),
    'How many scheduled backups of a database are kept; those that somebody asked for stay.',
  ),
  currency: setting(
    'KEYHOOK_CURRENCY',
    'USD',
    matching(/^[A-Z]{3}$/, 'a currency such as EUR'),
    'The currency of invoices.',
  ),
  databaseHourPriceMinor: setting(
    'KEYHOOK_DATABASE_HOUR_PRICE_MINOR',
    '2',
    integer(0, 1_000_000_000, 'a price in minor units'),
    'What an hour of one database costs, in minor units (cents).',
  ),
  deliveryAllowNetworks: optional(
    'KEYHOOK_DELIVERY_ALLOW_NETWORKS',
    networks,
    'Networks (CIDRs, comma-separated) that deliveries may go to although they are not public, such as `10.0.0.0/8`.',
  ),
  deliveryCa: optional(
    'KEYHOOK_DELIVERY_CA_FILE',
    certificates,
    'PEM file of certificate authorities that receivers may use besides the public ones.',
  ),
  deliveryMsMax: setting(
    'KEYHOOK_DELIVERY_TIMEOUT_MS',
    '15000',
    integer(100, 300_000, 'a number of milliseconds'),
    'How long one attempt may take, from the look-up of the name to the last byte of the response.',
  ),
  deliveryConnectMsMax: setting(
    'KEYHOOK_DELIVERY_CONNECT_TIMEOUT_MS',
    '5000',
    integer(50, 60_000, 'a number of milliseconds'),
    'How long of that may pass until the connection stands (name, TCP, TLS).',
  ),
  deliverySchedule: setting(
    'KEYHOOK_DELIVERY_RETRY_SCHEDULE',
    '0s,5s,5m,30m,2h,5h,10h,14h,20h,24h',
    retrySchedule,
    'Waits before each attempt of a delivery; there are as many attempts as waits. Each varies by ±10 %.',
  ),
  deliveryStandardWebhooks: setting(
    'KEYHOOK_DELIVERY_STANDARD_WEBHOOKS',
    'on',
    oneOf('on', 'off'),
    'Whether deliveries carry `webhook-id`, `webhook-timestamp` and `webhook-signature` too.',
  ),
  deliveryInFlightMax: setting(
    'KEYHOOK_DELIVERY_IN_FLIGHT_MAX',
    '10000',
    integer(1, 1_000_000, 'a number of requests'),
    'Most requests to receivers that a process has in flight.',
  ),
  deliveryLaneWidthMax: setting(
    'KEYHOOK_DELIVERY_PER_WEBHOOK_MAX',
    '32',
    integer(1, 1_000, 'a number of requests'),
    'Most of them to one webhook; slow and failing receivers get fewer, down to one.',
  ),
  deliveryResponseKeptBytesMax: setting(
    'KEYHOOK_DELIVERY_RESPONSE_KEPT_BYTES_MAX',
    '16384',
    integer(0, 1_048_576, 'a number of bytes'),
    "How much of a response's body is recorded.",
  ),
  deliveryResponseBytesMax: setting(
    'KEYHOOK_DELIVERY_RESPONSE_BYTES_MAX',
    '1048576',
    integer(1_024, 1_073_741_824, 'a number of bytes'),
    'How much of it is read; an attempt whose response is larger has failed.',
  ),
  deliveryLeaseMs: setting(
    'KEYHOOK_DELIVERY_LEASE_MS',
    '10000',
    integer(500, 600_000, 'a number of milliseconds'),
    'After so long without a sign of life from a dispatcher, others take over its webhooks.',
  ),
  deliveryDrainMsMax: setting(
    'KEYHOOK_DELIVERY_DRAIN_MS',
    '10000',
    integer(0, 600_000, 'a number of milliseconds'),
    'How long a process that is told to stop waits for deliveries in flight.',
  ),
  eventBytesMax: setting(
    'KEYHOOK_EVENT_BYTES_MAX',
    '65536',
    integer(1_024, 1_048_576, 'a number of bytes'),
    'Largest `data` of an event that is reported through `POST /operator/v1/events`.',
  ),
  retentionDays: optional(
    'KEYHOOK_RETENTION_DAYS',
    integer(1, 36_500, 'a number of days'),
    'After so many days delivery attempts and finished events are deleted, in weeks. Unset: they are kept.',
  ),
  metricsToken: optional(
    'KEYHOOK_METRICS_TOKEN',
    text,
    'Bearer token that `GET /metrics` asks for. Unset: it answers callers on the same machine only.',
    true,
  ),
  metricsPort: optional(
    'KEYHOOK_METRICS_PORT',
    integer(0, 65_535, 'a port'),
    'Where a process without the API answers `/healthz`, `/readyz` and `/metrics`. Unset: it does not listen.',
  ),
} as const

type Settings = typeof settings
type Value<S> = S extends Setting<infer T> ? (S extends { fallback: string } ? T : T | null) : never
export type Config = { readonly [K in keyof Settings]: Value<Settings[K]> }

export class ConfigProblems extends Error {
  readonly problems: readonly string[]
  constructor(problems: readonly string[]) {
    super(problems.join('\n'))
    this.problems = problems
  }
}

export function readConfig(environment: Record<string, string | undefined>): Config {
  const problems: string[] = []
  const values: Record<string, unknown> = {}
  for (const [name, setting] of Object.entries(settings) as [string, Setting<unknown>][]) {
    const given = environment[setting.variable]
    const text = given === undefined || given.trim() === '' ? setting.fallback : given.trim()
    try {
      values[name] = text === null ? null : setting.parse(text)
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error
      problems.push(`${setting.variable}: ${setting.secret ? 'the value' : `"${text}"`} ${error.message}`)
    }
  }
  problems.push(...crossCheck(environment))
  if (problems.length > 0) throw new ConfigProblems(problems)
  return Object.freeze(values) as Config
}

/** Settings that only make sense together. A second node that made up its own master key could read nobody's secrets. */
function crossCheck(environment: Record<string, string | undefined>): string[] {
  const has = (setting: Setting<unknown>) => (environment[setting.variable] ?? '').trim() !== ''
  const problems: string[] = []
  if (has(settings.databaseUrl) && !has(settings.masterKeys)) {
    problems.push('KEYHOOK_MASTER_KEY: is required with DATABASE_URL (make one with: openssl rand -base64 32)')
  }
  if (has(settings.oidcIssuer) && !has(settings.oidcAudience)) {
    problems.push('KEYHOOK_OIDC_AUDIENCE: is required with KEYHOOK_OIDC_ISSUER')
  }
  if (has(settings.oidcAudience) && !has(settings.oidcIssuer)) {
    problems.push('KEYHOOK_OIDC_ISSUER: is required with KEYHOOK_OIDC_AUDIENCE')
  }
  return problems
}
