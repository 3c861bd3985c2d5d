import { type ConnectionTarget, readConnectionUrl } from '../db/connection/connection-url.ts'
import { keyTagShape } from '../domain/api-key.ts'
import { isAddress, readNetwork } from '../domain/network.ts'
import { issuerUrlProblem } from '../login/issuer-url.ts'
import { InvalidValue, integer, matching, oneOf, optional, setting, text } from './setting.ts'

const postgresUrl = (value: string, environment: Readonly<Record<string, string | undefined>>): ConnectionTarget => {
  const read = readConnectionUrl(value, environment)
  if ('problems' in read) throw new InvalidValue(read.problems.join('; it '))
  return read.target
}

/** One key, or several with the current one first while secrets are resealed from the old key to the new one. */
const masterKeys = (value: string): [Buffer, ...Buffer[]] => {
  const keys = value.split(',').map((part) => Buffer.from(part.trim(), 'base64'))
  const readable = value
    .split(',')
    .every((part, i) => keys[i]?.toString('base64') === part.trim() && keys[i].length === 32)
  if (!readable) throw new InvalidValue('is not 32 bytes in base64 (create one with: openssl rand -base64 32)')
  return keys as [Buffer, ...Buffer[]]
}

const issuerUrl = (value: string): string => {
  const problem = issuerUrlProblem(value)
  if (problem !== null) throw new InvalidValue(problem)
  return value
}

/** Without the slash at the end, so that paths can be appended. */
const publicUrl = (value: string): string => {
  const url = URL.parse(value)
  if (url === null || !/^https?:$/.test(url.protocol) || /[?#@]/.test(value)) {
    throw new InvalidValue('is not an address such as https://keyhook.example.com/db')
  }
  return url.href.replace(/\/+$/, '')
}

const proxies = (value: string): string[] => {
  const parts = value.split(',').map((part) => part.trim())
  if (!parts.every((part) => isAddress(part) || (readNetwork(part)?.[1] ?? 0) > 0)) {
    throw new InvalidValue(
      'is not a list of addresses or CIDRs such as 10.0.0.0/8,::1 (/0 is not allowed: it would trust everyone)',
    )
  }
  return parts
}

const list = (value: string): string[] => value.split(',').map((part) => part.trim())

/** The server: addresses, storage, login and limits. */
export const serverSettings = {
  port: setting('PORT', '8080', integer(0, 65_535, 'a port'), 'Port to listen on; 0 takes a free one.'),
  host: setting('HOST', '127.0.0.1', text, 'Address to listen on; `0.0.0.0` for all of IPv4, `::` for everything.'),
  database: optional('DATABASE_URL', postgresUrl, 'PostgreSQL 15 or newer. Unset: the embedded server.', true),
  databaseConnections: setting(
    'KEYHOOK_DATABASE_CONNECTIONS',
    '10',
    integer(1, 1_000, 'a number of connections'),
    'Most PostgreSQL connections that a process shares among its work. Besides these it has up to 2 for authentication, 4 for event intake and, from the first event stream on, 1 for hints (`api`), 7 for deliveries (`dispatcher`) and 5 for jobs (`jobs`; `api` from the first job that it enqueues).',
  ),
  dataDir: setting(
    'KEYHOOK_DATA_DIR',
    '.keyhook',
    text,
    "Where the embedded server, the generated master key, customers' databases and backups live; relative to where the command is run.",
  ),
  postgresBin: optional(
    'KEYHOOK_POSTGRES_BIN',
    text,
    "Directory with `postgres` and `initdb` (15 or newer) of your own, for the embedded server and customers' databases. Unset: those that npm installed. A data directory stays with one major version.",
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
  oidcClientId: optional(
    'KEYHOOK_OIDC_CLIENT_ID',
    text,
    'The client of the console at the issuer: people sign in there. Its redirect address is `<KEYHOOK_PUBLIC_URL>/console/callback`.',
  ),
  oidcClientSecret: optional(
    'KEYHOOK_OIDC_CLIENT_SECRET',
    text,
    'The secret of that client; unset for a public client. PKCE is used in any case.',
    true,
  ),
  oidcTokenType: setting(
    'KEYHOOK_OIDC_TOKEN_TYPE',
    'at+jwt',
    oneOf('at+jwt', 'JWT'),
    'The header `typ` of those tokens. `JWT` also accepts access tokens that do not say that they are, and their client in `azp` or `appid`.',
  ),
  oidcClients: optional(
    'KEYHOOK_OIDC_CLIENTS',
    list,
    'Clients, comma-separated, whose tokens are accepted (`client_id`, `azp` or `appid`). Unset: all of the issuer.',
  ),
  oidcEmailClaim: setting(
    'KEYHOOK_OIDC_EMAIL_CLAIM',
    'email',
    text,
    'The claim with the e-mail address, by which a user without a recorded subject is found.',
  ),
  oidcEmailVerifiedClaim: setting(
    'KEYHOOK_OIDC_EMAIL_VERIFIED_CLAIM',
    'email_verified',
    text,
    'The claim that must be true for that.',
  ),
  oidcCreateUsers: setting(
    'KEYHOOK_OIDC_CREATE_USERS',
    'off',
    oneOf('on', 'off'),
    'Whether a first login with a verified address creates the user. The user belongs to no organization.',
  ),
  logLevel: setting(
    'KEYHOOK_LOG_LEVEL',
    'info',
    oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'),
    'Log level; `debug` adds a line for every successful read.',
  ),
  logFormat: setting(
    'KEYHOOK_LOG_FORMAT',
    'auto',
    oneOf('auto', 'pretty', 'json'),
    'Format of the log: lines for people, JSON lines, or `auto`, which is `pretty` on a terminal and `json` everywhere else.',
  ),
  publicUrl: optional(
    'KEYHOOK_PUBLIC_URL',
    publicUrl,
    'The address under which people reach this server, if a proxy in front of it changes host or path. Links to the console start with it.',
  ),
  trustedProxies: optional(
    'KEYHOOK_TRUSTED_PROXIES',
    proxies,
    'Addresses or CIDRs, comma-separated, whose `X-Forwarded-For` is trusted for audit entries.',
  ),
  requestBytesMax: setting(
    'KEYHOOK_REQUEST_BYTES_MAX',
    '65536',
    integer(1_024, 16_777_216, 'a number of bytes'),
    'Largest request body; for `POST /operator/v1/events` it is always 32 MiB.',
  ),
  httpDrainMs: setting(
    'KEYHOOK_HTTP_DRAIN_MS',
    '5000',
    integer(0, 600_000, 'a number of milliseconds'),
    'After SIGTERM, for how long the API still takes requests while `/readyz` answers 503 and answers close their connections. A proxy has to keep idle connections for less than this.',
  ),
  keysPerOrgMax: setting(
    'KEYHOOK_KEYS_PER_ORG_MAX',
    '10000',
    integer(1, 10_000_000, 'a number of keys'),
    'Most active API keys in one organization.',
  ),
  keysRequireLogin: setting(
    'KEYHOOK_KEYS_REQUIRE_LOGIN',
    'off',
    oneOf('on', 'off'),
    '`on`: API keys cannot create or revoke API keys; that takes a login token.',
  ),
  streamsMax: setting(
    'KEYHOOK_STREAMS_MAX',
    '1000',
    integer(0, 100_000, 'a number of streams'),
    'Most event streams that a process keeps open; no more than a twentieth of the files it may open.',
  ),
  streamsPerOrgMax: setting(
    'KEYHOOK_STREAMS_PER_ORG_MAX',
    '100',
    integer(0, 100_000, 'a number of streams'),
    'Most of them for one organization.',
  ),
  webhooksPerOrgMax: setting(
    'KEYHOOK_WEBHOOKS_PER_ORG_MAX',
    '10000',
    integer(1, 10_000_000, 'a number of webhooks'),
    'Most webhooks in one organization.',
  ),
} as const
