import { execFile } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile, rm, stat, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import {
  certificateFromFiles,
  createAuthority,
  issueCertificate,
  issuedCertificate,
  openAuthority,
} from '../../src/databases/certificates.ts'
import { scramVerifier } from '../../src/databases/database.ts'
import { nodeOf } from '../../src/databases/drivers/local/home.ts'
import type { LocalInstancesOptions } from '../../src/databases/drivers/local/instance.ts'
import { newId } from '../../src/lib/ids.ts'
import { createMasterKeys } from '../../src/lib/master-keys.ts'
import { resealSecrets } from '../../src/startup/master-keys.ts'
import { apiAlone } from '../kit/composed.ts'
import { until } from '../kit/until.ts'
import { openInstances } from './support/local-instances.ts'
import { type Platform, scratchFolder, startPlatform } from './support/platform.ts'
import { shownCertificate } from './support/shown-certificate.ts'

let platform: Platform
let database: Awaited<ReturnType<Platform['createDatabase']>>
let caFile: string
beforeAll(async () => {
  platform = await startPlatform()
  database = await platform.createDatabase('shop')
  caFile = join(platform.folder, 'database-ca.pem')
  await writeFile(caFile, await (await fetch(`${platform.url}/database-ca.pem`)).text())
})
afterAll(() => platform.close())

const where = ({ host, port, password }: typeof database) => ({
  host: host!,
  port: port!,
  user: 'app',
  database: 'app',
  password,
})

async function scratchForTest(): Promise<string> {
  const folder = await scratchFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** A instances on one folder, so that all tests share its template. */
async function driverForTest(options: Partial<LocalInstancesOptions>) {
  scratch ??= scratchFolder()
  const { dataDir } = await nodeOf(await scratch)
  const { useCertificates, provision, remove, close } = openInstances(dataDir, options)
  const id = newId('db')
  onTestFinished(() => remove(id).finally(close))
  return {
    useCertificates,
    async provision() {
      const { signal } = new AbortController()
      const { port } = await provision(id, { passwordVerifier: await scramVerifier('secret'), signal })
      return { host: '127.0.0.1', port, user: 'app', database: 'app', password: 'secret' }
    },
  }
}
let scratch: Promise<string> | undefined
afterAll(async () => scratch && rm(await scratch, { recursive: true, force: true }))

async function open(config: ConstructorParameters<typeof Client>[0]): Promise<Client> {
  const client = new Client(config)
  onTestFinished(() => client.end().catch(() => {}))
  await client.connect()
  return client
}

const isEncrypted = async (client: Client) =>
  (await client.query('select ssl, version from pg_stat_ssl where pid = pg_backend_pid()')).rows[0]

const psqlPath = (process.env.PATH ?? '').split(delimiter).map((folder) => join(folder, 'psql'))
const psql = (url: string, env: Record<string, string> = {}) =>
  promisify(execFile)('psql', [url, '-Atc', 'select ssl from pg_stat_ssl where pid = pg_backend_pid()'], {
    env: { PATH: process.env.PATH, PGPASSWORD: database.password, HOME: platform.folder, ...env },
  })

test('the printed string asks for verify-full, and the instances `pg` connects with the downloaded authority', async () => {
  expect(database.connection_string).toBe(`postgres://app@127.0.0.1:${database.port}/app?sslmode=verify-full`)
  const url = new URL(database.connection_string!)
  url.password = database.password
  url.searchParams.set('sslrootcert', caFile)
  expect(await isEncrypted(await open({ connectionString: url.href }))).toEqual({ ssl: true, version: 'TLSv1.3' })
})

test('a client that does not trust the authority, or expects another name, does not connect', async () => {
  await expect(open({ ...where(database), ssl: true })).rejects.toThrow(/certificate/)
  const ca = await readFile(caFile, 'utf8')
  await expect(open({ ...where(database), ssl: { ca, servername: 'db.example.com' } })).rejects.toThrow(
    /db\.example\.com/,
  )
})

test('channel binding works with the instances `pg`', async () => {
  const ca = await readFile(caFile, 'utf8')
  const client = await open({ ...where(database), ssl: { ca }, enableChannelBinding: true })
  expect(await isEncrypted(client)).toMatchObject({ ssl: true })
})

test('psql connects with verify-full and with channel_binding=require, and refuses another authority', async ({
  skip,
}) => {
  if (!psqlPath.some((path) => existsSync(path))) skip('psql is not installed (Debian: postgresql-client)')
  const url = `${database.connection_string}&sslrootcert=${encodeURIComponent(caFile)}`
  expect((await psql(url)).stdout).toBe('t\n')
  expect((await psql(`${url}&channel_binding=require`)).stdout).toBe('t\n')
  const otherCa = join(platform.folder, 'other-ca.pem')
  await writeFile(otherCa, (await createAuthority(new Date())).certificate)
  const other = `${database.connection_string}&sslrootcert=${encodeURIComponent(otherCa)}`
  await expect(psql(other)).rejects.toThrow('certificate verify failed')
})

test('a connection without TLS is accepted unless the setting requires TLS', async () => {
  expect(await isEncrypted(await open(where(database)))).toEqual({ ssl: false, version: null })
  const authority = await createAuthority(new Date())
  const instances = await driverForTest({ tlsAccept: 'encrypted' })
  instances.useCertificates(() => issueCertificate(authority, ['127.0.0.1'], new Date()))
  const closed = await instances.provision()
  await expect(open(closed)).rejects.toThrow(/no encryption/)
  expect(await isEncrypted(await open({ ...closed, ssl: { ca: authority.certificate } }))).toMatchObject({ ssl: true })
})

test('where TLS is off, the string does not ask for it, and there is no authority to download', async () => {
  const config = { ...platform.config, databasesTls: 'off' } as const
  const api = apiAlone({ ...platform, config })
  onTestFinished(() => api.close())
  expect((await api.app.inject('/database-ca.pem')).statusCode).toBe(404)
  const { token } = await platform.person([{ orgId: platform.orgId, role: 'member' }])
  const { body } = await api.app.inject({
    url: `/platform/v1/organizations/${platform.orgId}/databases/${database.id}`,
    headers: { authorization: `Bearer ${token}` },
  })
  expect(JSON.parse(body).connection_string).toBe(`postgres://app@127.0.0.1:${database.port}/app`)
})

test('a protocol older than TLS 1.2 is refused', async () => {
  const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const
  await expect(shownCertificate(database.port!, old)).rejects.toThrow(/protocol version|unsupported protocol/)
  expect((await shownCertificate(database.port!, { maxVersion: 'TLSv1.2' })).subject).toBe('CN=127.0.0.1')
})

test('the key of an instance is readable by its own account only, and the authority is sealed', async () => {
  const key = await stat(join(platform.home, database.id, 'server.key'))
  const cluster = await stat(join(platform.home, database.id, 'cluster'))
  expect({ mode: key.mode & 0o777, uid: key.uid }).toEqual({ mode: 0o600, uid: cluster.uid })
  const { key: authorityKey } = await openAuthority(platform.db, platform.masterKeys, new Date())
  const secret = authorityKey.split('\n')[1]!
  const grep = promisify(execFile)('grep', ['-rlaF', secret, platform.folder])
  await expect(grep, 'grep finds nothing and ends with code 1').rejects.toMatchObject({ code: 1 })
  const rows = await platform.db`select t::text as row from keyhook.certificate_authority t`
  expect(rows[0]!.row).not.toContain(secret)
})

test('each database has a TLS key of its own', async () => {
  const another = await platform.createDatabase('other')
  const publicKeyOf = async ({ port }: { port: number | null }) => {
    const shown = await shownCertificate(port!)
    expect(shown.verify(new X509Certificate(await readFile(caFile)).publicKey)).toBe(true)
    return shown.publicKey.export({ format: 'pem', type: 'spki' })
  }
  const own = await publicKeyOf(database)
  expect(await publicKeyOf(another)).not.toBe(own)
  expect(await readFile(join(platform.home, another.id, 'server.key'), 'utf8')).not.toBe(
    await readFile(join(platform.home, database.id, 'server.key'), 'utf8'),
  )
  await platform.removeDatabase(another.id)
})

test('a renewed file of the operator is shown without a restart, and sessions go on', async () => {
  const folder = await scratchForTest()
  const authority = await createAuthority(new Date())
  const [certificate, key] = [join(folder, 'node.crt'), join(folder, 'node.key')]
  const renew = async () => {
    const fresh = await issueCertificate(authority, ['127.0.0.1'], new Date())
    await writeFile(key, fresh.key, { mode: 0o600 })
    await writeFile(certificate, fresh.certificate)
    return new X509Certificate(fresh.certificate).serialNumber
  }
  const first = await renew()
  const instances = await driverForTest({ certificateCheckMs: 50 })
  instances.useCertificates(certificateFromFiles({ certificate, key }, '127.0.0.1'))
  const { port, ...address } = await instances.provision()
  const client = await open({ port, ...address, ssl: { ca: authority.certificate } })
  expect((await shownCertificate(port)).serialNumber).toBe(first)
  const second = await renew()
  await until(
    () => shownCertificate(port),
    (shown) => shown.serialNumber === second,
  )
  expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }])
})

test('the authority of the operator is served where there is one, and otherwise none', async () => {
  const folder = await scratchForTest()
  const ca = join(folder, 'ca.crt')
  await writeFile(ca, 'the authority')
  const served = async (databasesCaFile: string | null) => {
    const config = { ...platform.config, databasesCertificateFile: 'x', databasesKeyFile: 'y', databasesCaFile }
    const api = apiAlone({ ...platform, config })
    onTestFinished(() => api.close())
    return api.app.inject('/database-ca.pem')
  }
  expect(await served(ca)).toMatchObject({ statusCode: 200, body: 'the authority' })
  expect(await served(null)).toMatchObject({ statusCode: 404 })
})

test('a file that is not for the host, does not fit its key, or has expired is named with the reason', async () => {
  const folder = await scratchForTest()
  const [certificate, key] = [join(folder, 'a.crt'), join(folder, 'a.key')]
  const authority = await createAuthority(new Date())
  const problemOf = async (given: { certificate: string; key: string }) => {
    await writeFile(certificate, given.certificate)
    await writeFile(key, given.key)
    return certificateFromFiles({ certificate, key }, 'db.example.com')().then(
      () => null,
      (error: Error) => error.message,
    )
  }
  const good = await issueCertificate(authority, ['db.example.com'], new Date())
  expect(await problemOf(good)).toBeNull()
  expect(await problemOf({ ...good, key: authority.key })).toMatch(
    /a\.crt cannot be the certificate of databases: .*key/,
  )
  expect(await problemOf(await issueCertificate(authority, ['10.0.0.1'], new Date()))).toMatch(
    /not for db\.example\.com/,
  )
  expect(await problemOf(await issueCertificate(authority, ['db.example.com'], new Date(0)))).toMatch(/expired on/)
})

test('a certificate that Keyhook issued is replaced when two thirds of its time have passed', async () => {
  const authority = await createAuthority(new Date())
  let now = new Date()
  const source = issuedCertificate({ authority: async () => authority, names: ['db.example.com'], now: () => now })
  const first = await source()
  now = new Date(now.getTime() + 59 * 86_400_000)
  expect(await source(first)).toBe(first)
  now = new Date(now.getTime() + 2 * 86_400_000)
  const second = new X509Certificate((await source(first)).certificate)
  expect(second.serialNumber).not.toBe(new X509Certificate(first.certificate).serialNumber)
  expect(second.verify(new X509Certificate(authority.certificate).publicKey)).toBe(true)
})

test('nodes that start together share one authority, which moves to a new master key with the other secrets', async () => {
  const { db, masterKeys } = platform
  const opened = await Promise.all(Array.from({ length: 4 }, () => openAuthority(db, masterKeys, new Date())))
  expect(new Set(opened.map(({ certificate }) => certificate)).size).toBe(1)
  const fresh = Buffer.alloc(32, 7)
  const both = createMasterKeys([fresh, platform.config.masterKeys![0]])
  expect(await resealSecrets(db, both)).toBe(1)
  expect(await openAuthority(db, createMasterKeys([fresh]), new Date())).toEqual(opened[0])
  await expect(openAuthority(db, masterKeys, new Date())).rejects.toThrow(/secrets abandon --key/)
  await resealSecrets(db, createMasterKeys([platform.config.masterKeys![0], fresh]))
})
