import { readFileSync } from 'node:fs'
import { type ConnectionTarget, readConnectionUrl } from '../db/connection-url.ts'
import { type LeakReportKeys, readLeakReportKeys } from '../lib/leak-signatures.ts'
import { isAddress, issuerUrlProblem, readNetwork } from '../lib/network.ts'
import { keyTagShape } from '../lib/secrets.ts'
import { count, InvalidValue, integer, matching, oneOf, optional, secret, setting, text } from './setting.ts'

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

const leakReportKeys = (file: string): LeakReportKeys => {
  try {
    return readLeakReportKeys(readFileSync(file, 'utf8'))
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw new InvalidValue(code === undefined ? message : `cannot be read (${code})`)
  }
}

const list = (value: string): string[] => value.split(',').map((part) => part.trim())

/** The server: addresses, storage, login and limits. */
export const serverSettings = {
  port: setting('PORT', '8080', integer(0, 65_535, 'a port')).about(
    'The server listens on this port. 0 takes a free one.',
  ),
  host: setting('HOST', '127.0.0.1', text).about(
    'The server listens on this address. `0.0.0.0` means all IPv4 addresses, `::` all addresses.',
  ),
  database: secret('DATABASE_URL', postgresUrl).about(
    'Connection string of your PostgreSQL, 15 or newer. If unset, Keyhook runs the embedded PostgreSQL.',
  ),
  databaseConnections: setting('KEYHOOK_DATABASE_CONNECTIONS', '10', count(1, 1_000, 'connections')).about(
    'Largest number of PostgreSQL connections in the shared pool of a process. The roles need a few more: `api` 2 for authentication, 4 for event intake and 1 for event streams; `dispatcher` 7; `jobs` 5, and `api` too once it creates a job.',
  ),
  dataDir: setting('KEYHOOK_DATA_DIR', '.keyhook', text).about(
    "Folder of the embedded PostgreSQL, the generated master key, customers' databases and backups. A relative path starts in the current folder.",
  ),
  postgresBin: optional('KEYHOOK_POSTGRES_BIN', text).about(
    "Folder with your own `postgres` and `initdb`, 15 or newer, for the embedded PostgreSQL and customers' databases. If unset, Keyhook uses the PostgreSQL that npm installed. A data directory keeps its major version.",
  ),
  serviceName: setting(
    'KEYHOOK_SERVICE_NAME',
    'Service',
    matching(/^[A-Za-z][A-Za-z0-9-]{0,39}$/, 'a header word (letters, digits and -, up to 40)'),
  ).about('Brand in the header names `X-<name>-Event` and `X-<name>-Signature`.'),
  keyTag: setting(
    'KEYHOOK_KEY_TAG',
    'kh',
    matching(keyTagShape, 'a tag (a lower-case letter, then up to 9 letters or digits)'),
  ).about('Tag at the start of new API keys. Keys with another tag keep working.'),
  masterKeys: secret('KEYHOOK_MASTER_KEY', masterKeys).about(
    'Master key: 32 bytes in base64, or several keys separated by commas, the current one first. It seals webhook secrets and signs local login tokens. It is required with `DATABASE_URL`; otherwise the first start creates it as `master.key`.',
  ),
  oidcIssuer: optional('KEYHOOK_OIDC_ISSUER', issuerUrl).about(
    'URL of the OpenID Connect issuer whose login tokens are accepted.',
  ),
  oidcAudience: optional('KEYHOOK_OIDC_AUDIENCE', text).about(
    'Audience (`aud`) that tokens of the issuer must have. It is required with `KEYHOOK_OIDC_ISSUER`.',
  ),
  oidcClientId: optional('KEYHOOK_OIDC_CLIENT_ID', text).about(
    'Client id of the console at the issuer, so that people sign in there. Its redirect address is `<KEYHOOK_PUBLIC_URL>/console/callback`.',
  ),
  oidcClientSecret: secret('KEYHOOK_OIDC_CLIENT_SECRET', text).about(
    "Secret of the console's client at the issuer. Leave it unset for a public client; PKCE is always used.",
  ),
  oidcTokenType: setting('KEYHOOK_OIDC_TOKEN_TYPE', 'at+jwt', oneOf('at+jwt', 'JWT')).about(
    'Value of `typ` in the header of access tokens. `JWT` also accepts tokens without `at+jwt`, and reads the client from `azp` or `appid`.',
  ),
  oidcClients: optional('KEYHOOK_OIDC_CLIENTS', list).about(
    'Clients whose tokens are accepted (`client_id`, `azp` or `appid`), separated by commas. If unset, all clients of the issuer are accepted.',
  ),
  oidcEmailClaim: setting('KEYHOOK_OIDC_EMAIL_CLAIM', 'email', text).about(
    'Claim with the e-mail address, by which a user without a recorded subject is found.',
  ),
  oidcEmailVerifiedClaim: setting('KEYHOOK_OIDC_EMAIL_VERIFIED_CLAIM', 'email_verified', text).about(
    'Claim that must be true before a user is found by the e-mail address.',
  ),
  oidcCreateUsers: setting('KEYHOOK_OIDC_CREATE_USERS', 'off', oneOf('on', 'off')).about(
    '`on` creates a user at the first login with a verified address. The user belongs to no organization.',
  ),
  passkeys: setting('KEYHOOK_PASSKEYS', 'auto', oneOf('auto', 'on', 'off')).about(
    'Whether people may sign in to the console with passkeys. `auto` is `on` without `KEYHOOK_OIDC_ISSUER` and `off` with it, so that the issuer alone decides who signs in.',
  ),
  logLevel: setting(
    'KEYHOOK_LOG_LEVEL',
    'info',
    oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'),
  ).about('Lowest level that is logged. `debug` adds a line for every successful read.'),
  logFormat: setting('KEYHOOK_LOG_FORMAT', 'auto', oneOf('auto', 'pretty', 'json')).about(
    'Format of the log: readable lines (`pretty`) or JSON lines (`json`). `auto` is `pretty` on a terminal and `json` elsewhere.',
  ),
  publicUrl: optional('KEYHOOK_PUBLIC_URL', publicUrl).about(
    'Address that people use for this server, if a proxy changes the host or path. Links to the console start with it.',
  ),
  trustedProxies: optional('KEYHOOK_TRUSTED_PROXIES', proxies).about(
    'Addresses or CIDRs of proxies, separated by commas, whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed.',
  ),
  requestBytesMax: setting('KEYHOOK_REQUEST_BYTES_MAX', '65536', count(1_024, 16_777_216, 'bytes')).about(
    'Largest request body in bytes. `POST /operator/v1/events` always accepts 32 MiB.',
  ),
  httpDrainMs: setting('KEYHOOK_HTTP_DRAIN_MS', '5000', count(0, 600_000, 'milliseconds')).about(
    'Time after SIGTERM in which the API still accepts requests while `/readyz` answers 503. A proxy must keep idle connections for less than this.',
  ),
  keysPerOrgMax: setting('KEYHOOK_KEYS_PER_ORG_MAX', '10000', count(1, 10_000_000, 'keys')).about(
    'Largest number of active API keys in one organization.',
  ),
  keyDaysMax: optional('KEYHOOK_KEY_DAYS_MAX', count(1, 3_650, 'days')).about(
    'Largest number of days that a new API key lasts. A key that is created without an end gets this one. If unset, keys need not expire; an owner can set a number for an organization.',
  ),
  keyRequestsPerMinuteMax: optional('KEYHOOK_KEY_REQUESTS_PER_MINUTE_MAX', count(1, 10_000_000, 'requests')).about(
    'Largest number of requests of one API key in a minute, over all nodes. If unset, there is no limit. Set it alike on every node.',
  ),
  orgRequestsPerMinuteMax: optional('KEYHOOK_ORG_REQUESTS_PER_MINUTE_MAX', count(1, 10_000_000, 'requests')).about(
    'Largest number of requests of all API keys of one organization in a minute, over all nodes. If unset, there is no limit. Set it alike on every node.',
  ),
  keysRequireLogin: setting('KEYHOOK_KEYS_REQUIRE_LOGIN', 'off', oneOf('on', 'off')).about(
    '`on` requires a login token to create, change or revoke API keys; API keys themselves may not.',
  ),
  leakReportKeys: optional('KEYHOOK_LEAK_REPORT_KEYS_FILE', leakReportKeys).about(
    'File with the public keys of GitHub that sign reports of leaked API keys, as https://api.github.com/meta/public_keys/secret_scanning answers them. It is read at the start. If unset, reports are not accepted.',
  ),
  streamsMax: setting('KEYHOOK_STREAMS_MAX', '1000', count(0, 100_000, 'streams')).about(
    'Largest number of open event streams in a process. At most a twentieth of the open files of the process are used.',
  ),
  streamsPerOrgMax: setting('KEYHOOK_STREAMS_PER_ORG_MAX', '100', count(0, 100_000, 'streams')).about(
    'Largest number of open event streams of one organization in a process.',
  ),
  webhooksPerOrgMax: setting('KEYHOOK_WEBHOOKS_PER_ORG_MAX', '10000', count(1, 10_000_000, 'webhooks')).about(
    'Largest number of webhooks in one organization.',
  ),
} as const
