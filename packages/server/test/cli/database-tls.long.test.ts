import { randomBytes } from 'node:crypto'
import { pino } from 'pino'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { settleTls } from '../../src/db/connection.ts'
import { connect } from '../../src/db/database.ts'
import { createJobQueue } from '../../src/jobs/queue.ts'
import { createMasterKeys } from '../../src/lib/master-keys.ts'
import { createLocalIssuer } from '../../src/login/login-tokens.ts'
import { readConfig } from '../../src/settings/config.ts'
import { caFile, certificateFiles } from '../delivery/support/receiver.ts'
import { call } from '../kit/client.ts'
import { keyhook, keyhookHere, type Running, serve } from '../kit/processes.ts'
import { startTcpPostgres } from '../kit/tcp-postgres.ts'

/* DATABASE_URL for both pools: ours, and the job queue's, which an API process opens when a database is ordered. */
let postgres: Awaited<ReturnType<typeof startTcpPostgres>>
beforeAll(async () => {
  postgres = await startTcpPostgres()
})
afterAll(() => postgres.close())
beforeEach(() => postgres.show('receiver'))

const masterKey = randomBytes(32)
const issuer = createLocalIssuer({ masterKeys: createMasterKeys([masterKey]), now: () => new Date() })
const environmentOf = (url: string) => ({
  DATABASE_URL: url,
  KEYHOOK_MASTER_KEY: masterKey.toString('base64'),
  KEYHOOK_LOG_LEVEL: 'error',
})
const ownersToken = (server: Running) => issuer.issue({ subject: server.ready.owner_id as never, ttlSeconds: 600 })

/** Migrates and serves with the two roles that differ here; returns which of their connections were encrypted. */
async function migrateAndServe(url: string): Promise<Record<string, boolean>> {
  const environment = environmentOf(url)
  expect(await keyhook(['migrate'], environment)).toMatchObject({ code: 0, stderr: '' })
  const seen: Record<string, boolean> = {}
  for (const role of ['api', 'all']) {
    const server = await serve(environment, ['--json', '--role', role])
    const databases = `${server.url}/platform/v1/organizations/${server.ready.organization_id}/databases`
    const made = await call(databases, { token: await ownersToken(server), body: { name: `of-${role}` } })
    expect(made.status, JSON.stringify(made.body)).toBe(202)
    Object.assign(seen, await postgres.encrypted())
    expect(await server.stop()).toMatchObject({ code: 0, stderr: '' })
    await postgres.ask((db) => db`delete from keyhook.databases`)
  }
  return seen
}

const timeout = 90_000

test.each([
  ['sslmode=require', '?sslmode=require'],
  ['sslmode=verify-full with its authority', `?sslmode=verify-full&sslrootcert=${caFile}`],
])(
  '%s: migrate, serve and the job queue work, and all connections are encrypted',
  { timeout },
  async (_, parameters) => {
    const seen = await migrateAndServe(postgres.url(parameters))
    expect(seen).toMatchObject({ 'keyhook serve': true, 'keyhook jobs': true })
    expect(Object.values(seen)).not.toContain(false)
  },
)

test('sslmode=prefer works with a server without TLS', { timeout }, async () => {
  await postgres.show(null)
  const seen = await migrateAndServe(postgres.url('?sslmode=prefer'))
  expect(seen).toMatchObject({ 'keyhook serve': false, 'keyhook jobs': false })
})

test('a socket is found by its directory, in both forms of the URL', { timeout }, async () => {
  const { host, port, user, password, database } = postgres.target
  const login = `${user}:${password}`
  expect(await migrateAndServe(`postgresql://${login}@/${database}?host=${host}&port=${port}`)).toEqual({})
  // As in libpq: a socket file is not encrypted.
  const encoded = `postgresql://${login}@${encodeURIComponent(host)}:${port}/${database}?sslmode=require`
  expect(await keyhookHere(['migrate'], environmentOf(encoded))).toMatchObject({ code: 0, stderr: '' })
})

/** The answer in each of the two pools. */
async function ofBoth(environment: Record<string, string>, question: string): Promise<unknown[]> {
  const target = await settleTls(readConfig({ ...environmentOf('postgres://'), ...environment }).database!)
  const db = connect(target, { name: 'test', connectionsMax: 1 })
  onTestFinished(() => db.end())
  const queue = createJobQueue({ target, supervise: false, log: pino({ level: 'silent' }) })
  onTestFinished(() => queue.close())
  const [ours] = await db.unsafe(question)
  const theirs = await (await queue.boss()).getDb().executeSql(question)
  return [ours, theirs.rows[0]]
}

test('settings in the URL reach both pools', async () => {
  const settings = { statement_timeout: '77s', lock_timeout: '88s', application_name: 'acme one', 'acme.note': 'a\\ b' }
  const { lock_timeout, ...named } = settings
  const parameters = new URLSearchParams({ ...named, options: `-c lock_timeout=${lock_timeout}` })
  const question = `select ${Object.keys(settings).map((name) => `current_setting('${name}') as "${name}"`)}`
  const answers = await ofBoth({ DATABASE_URL: postgres.url(`?${parameters}`) }, question)
  expect(answers).toEqual([settings, settings])
})

test('with prepare=false no prepared statement stays in a session', async () => {
  const kept = async (parameters: string) => {
    const target = readConfig(environmentOf(postgres.url(parameters))).database!
    const db = connect(target, { name: 'test', connectionsMax: 1 })
    onTestFinished(() => db.end())
    await db`select ${1}::int`
    return (await db.unsafe('select name from pg_prepared_statements')).length
  }
  expect(await kept('')).toBeGreaterThan(0)
  expect(await kept('?prepare=false')).toBe(0)
})

const isEncrypted = 'select ssl from pg_stat_ssl where pid = pg_backend_pid()'
const encrypted = [{ ssl: true }, { ssl: true }]

test('the host may be an address that the certificate contains', async () => {
  const url = postgres.url(`?sslmode=verify-full&sslrootcert=${caFile}`, { host: '127.0.0.1' })
  expect(await ofBoth({ DATABASE_URL: url }, isEncrypted)).toEqual(encrypted)
})

test('sslmode=prefer is encrypted where the server supports TLS', async () => {
  expect(await ofBoth({ DATABASE_URL: postgres.url('?sslmode=prefer') }, isEncrypted)).toEqual(encrypted)
})

test('what is not in the URL is read from the variables of PostgreSQL, for both pools', async () => {
  const { user, password, database, port } = postgres.target
  const place = { PGHOST: 'localhost', PGPORT: String(port), PGUSER: user, PGPASSWORD: password, PGDATABASE: database }
  const tls = { PGSSLMODE: 'verify-full', PGSSLROOTCERT: caFile }
  expect(await ofBoth({ ...place, ...tls }, isEncrypted)).toEqual(encrypted)
})

/** The error of a command: one line, without the password. */
async function rejectionOf(url: string): Promise<string> {
  const ended = await keyhookHere(['migrate'], environmentOf(url))
  expect([ended.code, ended.stdout], ended.stderr).toEqual([2, ''])
  expect(ended.stderr).toMatch(/^DATABASE_URL: [^\n]+\n$/)
  expect(ended.stderr).not.toContain(postgres.target.password)
  return ended.stderr
}

test('a certificate of another authority is rejected in one line', async () => {
  const stranger = certificateFiles('selfsigned').cert
  for (const mode of ['verify-full', 'verify-ca', 'require']) {
    const error = await rejectionOf(postgres.url(`?sslmode=${mode}&sslrootcert=${stranger}`))
    expect(error, mode).toMatch(
      /TLS with PostgreSQL failed: [^\n]+ \((?:SELF_SIGNED|UNABLE_TO)\w+\)\. sslrootcert=FILE/,
    )
  }
  // The public authorities do not know it either, unless Node gets another one.
  const url = postgres.url('?sslmode=verify-full')
  expect(await rejectionOf(url)).toMatch(/SELF_SIGNED|UNABLE_TO/)
  const trusting = { ...environmentOf(url), NODE_EXTRA_CA_CERTS: caFile }
  expect(await keyhook(['migrate'], trusting)).toMatchObject({ code: 0, stderr: '' })
})

test('a certificate for another host is rejected in one line, except with sslmode=verify-ca', async () => {
  await postgres.show('stranger')
  const error = await rejectionOf(postgres.url(`?sslmode=verify-full&sslrootcert=${caFile}`))
  expect(error).toMatch(/localhost[^\n]+somewhere\.else[^\n]+The host in the URL has to be a name in the certificate\./)
  const url = postgres.url(`?sslmode=verify-ca&sslrootcert=${caFile}`)
  expect(await keyhookHere(['migrate'], environmentOf(url))).toMatchObject({ code: 0, stderr: '' })
})

test('a certificate that has expired is rejected in one line', async () => {
  await postgres.show('expired')
  expect(await rejectionOf(postgres.url(`?sslmode=verify-full&sslrootcert=${caFile}`))).toContain('CERT_HAS_EXPIRED')
})

test('a server without TLS is rejected in one line where TLS is required', async () => {
  await postgres.show(null)
  const error = await rejectionOf(postgres.url('?sslmode=require'))
  expect(error).toMatch(/the server at localhost:\d+ does not support TLS, which sslmode=require requires\.\n$/)
})

test('a setting that the server does not know is rejected in one line', async () => {
  expect(await rejectionOf(postgres.url('?schema=public'))).toContain('unrecognized configuration parameter "schema"')
  expect(await rejectionOf(postgres.url('?statement_timeout=soon'))).toContain('"statement_timeout"')
})

test('a client certificate is sent where the server requires one', async () => {
  const { cert, key } = certificateFiles('selfsigned')
  const url = postgres.url(`?sslmode=verify-full&sslrootcert=${caFile}`, { user: 'guarded' })
  expect(await rejectionOf(url)).toContain('requires a valid client certificate')
  expect(await ofBoth({ DATABASE_URL: `${url}&sslcert=${cert}&sslkey=${key}` }, isEncrypted)).toEqual(encrypted)
})

test('a certificate that becomes invalid while the process runs is an outage, which ends with a valid one', {
  timeout,
}, async () => {
  const server = await serve(environmentOf(postgres.url(`?sslmode=verify-full&sslrootcert=${caFile}`)), [
    '--json',
    '--role',
    'api',
  ])
  const token = await ownersToken(server)
  const status = async () => (await call(`${server.url}/api/v1/organizations`, { token })).status
  expect(await status()).toBe(200)
  const become = async (name: 'expired' | 'receiver') => {
    await postgres.show(name)
    await postgres.ask((db) => db`select pg_terminate_backend(pid) from pg_stat_activity where client_addr is not null`)
  }
  await become('expired')
  await expect.poll(status).toBe(503)
  await become('receiver')
  await expect.poll(status).toBe(200)
  await server.stop()
})
