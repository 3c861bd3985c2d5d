import { spawnSync } from 'node:child_process'
import { writeSync } from 'node:fs'
import { mkdir, readdir, readFile, rm, stat, symlink, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { isPostgresOn, readLockFile } from '../../src/postgres/lock-file.ts'
import { openLog } from '../../src/postgres/log-file.ts'
import { readConfig } from '../../src/settings/config.ts'
import { openInstallation } from '../../src/startup/open.ts'
import { until } from '../kit/until.ts'
import { dataDirectory, notes, open, putNote, query, scratch, startHolder } from './support/scratch.ts'

test('committed rows are there after a stop and a second start', async () => {
  const dataDir = await dataDirectory()
  const noted: string[] = []
  const note = (text: string) => void noted.push(text)
  const first = await open(dataDir, 'serve', { note })
  await putNote(first.connection, 'kept')
  await first.stop()
  expect(noted).toEqual([expect.stringContaining('first start only')])

  const second = await open(dataDir, 'serve', { note })
  expect(await notes(second.connection)).toEqual(['kept'])
  expect(noted).toHaveLength(1)
})

test('the server has room for all the connections that a process may open', async () => {
  const config = readConfig({ KEYHOOK_DATA_DIR: await dataDirectory(), KEYHOOK_DATABASE_CONNECTIONS: '250' })
  const { db, close } = await openInstallation(config, { purpose: 'serve', note() {} })
  onTestFinished(close)
  const allOpen = Promise.withResolvers<void>()
  let open = 0
  const useConnection = () =>
    db.begin(async (tx) => {
      await tx`set local idle_in_transaction_session_timeout = 0`
      open += 1
      if (open === 250) allOpen.resolve()
      await allOpen.promise
    })
  await Promise.all(Array.from({ length: 250 }, useConnection))
  const [room] = await db`select current_setting('max_connections')::int as connections`
  expect(room!.connections).toBeGreaterThan(250 + 2 + 7 + 5)
})

/** Field 41. The second field, a name in brackets, may contain spaces. */
async function policyOf(pid: number | 'self'): Promise<string> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[38]!
}

/** The number of a session's process, which has another one in the namespace of its server. */
async function pidHere(pid: number): Promise<number> {
  for (const name of (await readdir('/proc')).filter((entry) => /^\d+$/.test(entry))) {
    const status = await readFile(`/proc/${name}/status`, 'utf8').catch(() => '')
    if (new RegExp(`^NSpid:\\t\\d+\\t${pid}$`, 'm').test(status)) return Number(name)
  }
  return pid
}

test('its sessions run with batch scheduling, if the machine allows it', async () => {
  const { connection } = await open(await dataDirectory())
  const ours = () =>
    query(connection, async (sql) => {
      const [session] = await sql`select pg_backend_pid() as pid`
      return policyOf(await pidHere(session!.pid))
    })
  // Otherwise they have our own policy.
  const isAllowed = (await policyOf('self')) === '0' && spawnSync('chrt', ['--batch', '0', 'true']).status === 0
  const batch = '3'
  await expect.poll(ours).toBe(isAllowed ? batch : await policyOf('self'))
})

test('stop ends the server, and can be called again', async () => {
  const dataDir = await dataDirectory()
  const embedded = await open(dataDir)
  const { pid } = (await readLockFile(join(dataDir, 'postgres')))!
  expect(await isPostgresOn(join(dataDir, 'postgres'), pid)).toBe(true)
  await Promise.all([embedded.stop(), embedded.stop()])
  expect(await isPostgresOn(join(dataDir, 'postgres'), pid)).toBe(false)
  await embedded.stop()
})

test('the database is UTF-8, checksummed, durable, sorted by code point and reachable by its socket alone', async () => {
  const { connection } = await open(await dataDirectory(), 'serve', { settings: {} })
  const [row] = await query(
    connection,
    (sql) => sql`
      select current_setting('server_encoding') as encoding, current_setting('data_checksums') as checksums,
        current_setting('fsync') as fsync, current_setting('listen_addresses') as addresses,
        current_setting('max_connections') as connections, 'é' > 'z' as by_code_point, upper('é') as upper`,
  )
  expect(row).toEqual({
    encoding: 'UTF8',
    checksums: 'on',
    fsync: 'on',
    addresses: '',
    connections: '200',
    by_code_point: true,
    upper: 'É',
  })
})

test('the socket requires the password', async () => {
  const { connection } = await open(await dataDirectory())
  await expect(query({ ...connection, password: 'wrong' }, (sql) => sql`select 1`)).rejects.toThrow(/password/)
})

test('secrets and the socket are accessible for their owner only', async () => {
  const dataDir = await dataDirectory()
  const before = process.umask(0)
  try {
    const { connection } = await open(dataDir)
    const mode = async (path: string) => ((await stat(path)).mode & 0o777).toString(8)
    for (const secret of ['id', 'postgres.password', 'postgres.log']) {
      expect.soft(await mode(join(dataDir, secret)), secret).toBe('600')
    }
    expect(await mode(connection.host)).toBe('700')
    expect(await mode(dataDir)).toBe(process.getuid?.() === 0 ? '711' : '700')
    expect((await readdir(dataDir)).sort()).toEqual(['id', 'postgres', 'postgres.log', 'postgres.password'])
  } finally {
    process.umask(before)
  }
})

test('a lost password file is replaced without loss of data', async () => {
  const dataDir = await dataDirectory()
  const first = await open(dataDir)
  await putNote(first.connection, 'kept')
  await first.stop()
  await unlink(join(dataDir, 'postgres.password'))

  const second = await open(dataDir)
  expect(second.connection.password).not.toBe(first.connection.password)
  expect(await notes(second.connection)).toEqual(['kept'])
})

test('a link to a missing cluster is an error, and not an empty database', async () => {
  const dataDir = await dataDirectory()
  await mkdir(dataDir)
  await symlink(join(dataDir, 'elsewhere'), join(dataDir, 'postgres'))
  await expect(open(dataDir)).rejects.toThrow(/not there/)
})

test('a directory with other files is not changed', async () => {
  const dataDir = await dataDirectory()
  await mkdir(join(dataDir, 'postgres'), { recursive: true })
  await writeFile(join(dataDir, 'postgres/thesis.txt'), 'mine')
  await expect(open(dataDir)).rejects.toThrow(/neither empty nor/)
  expect(await readFile(join(dataDir, 'postgres/thesis.txt'), 'utf8')).toBe('mine')
})

test('a server that cannot start reports the reason, and releases the lock', async () => {
  const dataDir = await dataDirectory()
  await expect(open(dataDir, 'serve', { settings: { shared_buffers: 'plenty' } })).rejects.toThrow(/shared_buffers/)
  expect((await open(dataDir)).owned).toBe(true)
})

test('a process that exits without a stop ends its server', async () => {
  const dataDir = await dataDirectory()
  const owner = startHolder(dataDir, 'serve')
  await owner.until((line) => line.ready === true)
  const cluster = join(dataDir, 'postgres')
  const { pid } = (await readLockFile(cluster))!
  owner.child.kill('SIGUSR2')
  await owner.ended
  await expect.poll(() => isPostgresOn(cluster, pid)).toBe(false)
})

test('the caller is notified if the server ends by itself', async () => {
  const dataDir = await dataDirectory()
  const whys: string[] = []
  await open(dataDir, 'serve', { onExit: (why) => void whys.push(why) })
  process.kill((await readLockFile(join(dataDir, 'postgres')))!.pid, 'SIGINT')
  await until(() => whys.length > 0)
  expect(whys[0]).toMatch(/stopped by itself: exit code 0.*fast shutdown/s)
})

test('a log over its limit is renamed at the next start', async () => {
  const dataDir = await dataDirectory()
  await mkdir(dataDir)
  await writeFile(join(dataDir, 'postgres.log'), Buffer.alloc(10 * 1024 * 1024 + 1, '.'))
  await open(dataDir)
  expect((await stat(join(dataDir, 'postgres.log'))).size).toBeLessThan(100_000)
  expect((await stat(join(dataDir, 'postgres.log.old'))).size).toBeGreaterThan(10_000_000)
  await rm(join(dataDir, 'postgres.log.old'))
})

test('a log that reaches its limit while the server runs is copied and truncated, and goes on', async () => {
  const dataDir = await scratch()
  const log = await openLog(dataDir, { checkEveryMs: 10 })
  onTestFinished(() => log.close())
  // As a server writes: through its own descriptor.
  writeSync(log.fd, 'first\n')
  writeSync(log.fd, Buffer.alloc(10 * 1024 * 1024 + 1, '.'))
  await until(async () => (await stat(log.path)).size === 0)
  expect((await stat(`${log.path}.old`)).size).toBeGreaterThan(10_000_000)
  writeSync(log.fd, 'last line\n')
  expect(await readFile(log.path, 'utf8')).toBe('last line\n')
  expect(await log.tail()).toBe('last line')
})

test('the text and the values of a failed statement are not in the log', async () => {
  const dataDir = await dataDirectory()
  const { connection } = await open(dataDir)
  await expect(query(connection, (sql) => sql`select ${'hunter2'}::text::int`)).rejects.toThrow()
  expect(await readFile(join(dataDir, 'postgres.log'), 'utf8')).not.toContain('hunter2')
})
