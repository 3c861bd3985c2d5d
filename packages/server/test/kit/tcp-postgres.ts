import { chown, mkdtemp, readFile, realpath, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, type Database } from '../../src/db/database.ts'
import { openEmbedded } from '../../src/postgres/index.ts'
import { type CertificateName, certificateFiles } from '../delivery/support/receiver.ts'
import { removeDataDirectory } from './data-directory.ts'
import { freePort } from './free-port.ts'
import { until } from './until.ts'

/** A PostgreSQL that listens on loopback, as a customer's does, and has the given certificate. */
export async function startTcpPostgres() {
  const dataDir = await mkdtemp(join(tmpdir(), 'keyhook-test-'))
  const port = await freePort()
  const settings = { fsync: 'off', listen_addresses: '127.0.0.1', port: String(port) }
  const server = await openEmbedded({ dataDir, purpose: 'serve', settings })
  const target = { ...server.connection, port }
  const files = await clusterFiles(dataDir)
  await files.put('clients.crt', await readFile(certificateFiles('selfsigned').cert, 'utf8'))
  await files.put(
    'pg_hba.conf',
    `hostssl all guarded 127.0.0.1/32 scram-sha-256 clientcert=verify-ca\n${await files.read('pg_hba.conf')}`,
  )

  const ask = async <T>(work: (db: Database) => Promise<T>): Promise<T> => {
    const db = connect(target, { name: 'test', connectionsMax: 1 })
    try {
      return await work(db)
    } finally {
      await db.end()
    }
  }
  const loadedAt = () => ask(async (db) => String((await db`select pg_conf_load_time()::text as at`)[0]!.at))

  // Who has to show a certificate to get in.
  await ask((db) => db.unsafe(`create role guarded superuser login password '${target.password}'`))
  await ask((db) => db.unsafe("alter system set ssl_ca_file = 'clients.crt'"))

  return {
    target,
    ask,
    url: (parameters: string, { host = 'localhost', user = target.user } = {}) =>
      `postgres://${user}:${target.password}@${host}:${port}/${target.database}${parameters}`,
    /** From now on; null: it speaks no TLS. */
    async show(name: CertificateName | null): Promise<void> {
      if (name !== null) {
        const { cert, key } = certificateFiles(name)
        await files.put('server.crt', await readFile(cert, 'utf8'))
        await files.put('server.key', await readFile(key, 'utf8'))
      }
      const before = await loadedAt()
      await ask(async (db) => {
        await db.unsafe(`alter system set ssl = ${name === null ? 'off' : 'on'}`)
        await db`select pg_reload_conf()`
      })
      // New connections get the certificate that the server has read by then.
      await until(async () => (await loadedAt()) !== before)
    },
    /** Whether the connections over TCP are encrypted, by the names that Keyhook gives them. One without a name is just beginning. */
    encrypted: () =>
      ask(async (db) => {
        const rows = await db<{ name: string; ssl: boolean }[]>`
          select distinct a.application_name as name, s.ssl from pg_stat_ssl s join pg_stat_activity a using (pid)
          where a.client_addr is not null and a.application_name <> ''`
        return Object.fromEntries(rows.map(({ name, ssl }) => [name, ssl]))
      }),
    async close(): Promise<void> {
      await server.stop()
      await removeDataDirectory(dataDir)
    },
  }
}

/** PostgreSQL reads a key only if no other account can read it: in its own directory, and as its own file. */
async function clusterFiles(dataDir: string) {
  const cluster = await realpath(join(dataDir, 'postgres'))
  const { uid, gid } = await stat(cluster)
  return {
    read: (name: string) => readFile(join(cluster, name), 'utf8'),
    async put(name: string, text: string): Promise<void> {
      await writeFile(join(cluster, name), text, { mode: 0o600 })
      await chown(join(cluster, name), uid, gid)
    },
  }
}
