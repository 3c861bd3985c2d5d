import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { access, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { createBackupArchives } from '../../src/archives/backup-archives.ts'
import { createDirectoryStore } from '../../src/archives/directory-store.ts'
import { createEncryption } from '../../src/archives/encryption.ts'
import { createWalArchive } from '../../src/archives/wal-archive.ts'
import { connectionString, scramVerifier } from '../../src/databases/database.ts'
import { nodeOf } from '../../src/databases/drivers/local/home.ts'
import { createLocalDriver } from '../../src/databases/drivers/local/local-driver.ts'
import { newId } from '../../src/lib/ids.ts'
import { createMasterKeys } from '../../src/lib/master-keys.ts'
import { customerSql } from '../kit/customer-sql.ts'
import { createInstallation } from '../kit/installation.ts'
import { until } from '../kit/until.ts'
import { driverConformance } from './driver-conformance.ts'
import { openInstances } from './support/local-instances.ts'
import { archivePath, scratchFolder } from './support/platform.ts'

// One folder for all tests: they share its spare cluster, and each removes its own databases.
const folder = scratchFolder()
afterAll(async () => rm(await folder, { recursive: true, force: true }))

const encryption = createEncryption(createMasterKeys([randomBytes(32)]))

driverConformance('the local driver', async () => {
  const { dataDir } = await nodeOf(join(await folder, 'data'))
  const { db, close } = await createInstallation()
  onTestFinished(close)
  const path = join(await folder, `archives-${randomBytes(4).toString('hex')}`)
  const store = createDirectoryStore(path)
  const archives = createBackupArchives({ store, encryption, encrypts: true })
  const wal = createWalArchive({ store, encryption, encrypts: true })
  const open = () => {
    const instances = openInstances(dataDir)
    onTestFinished(async () => {
      for (const id of await instances.existing()) await instances.remove(id)
      await instances.close()
    })
    return createLocalDriver({ instances, archives, wal, db })
  }
  return {
    driver: open(),
    reopen: async () => open(),
    async damage({ backupId }) {
      const file = await archivePath(path, backupId)
      const content = await readFile(file)
      content[content.length >> 1]! ^= 0xff
      await writeFile(file, content)
    },
  }
})

test('a database that cannot start reports the reason', async () => {
  const { dataDir } = await nodeOf(join(await folder, 'data'))
  const id = newId('db')
  const instances = openInstances(dataDir)
  const passwordVerifier = await scramVerifier('secret')
  const { host, port } = await instances.provision(id, { passwordVerifier, signal: new AbortController().signal })
  await instances.close()
  const taker = createServer()
  await new Promise<void>((done) => taker.listen({ host, port }, done))
  onTestFinished(() => new Promise((done) => taker.close(() => done())))
  const next = openInstances(dataDir)
  onTestFinished(() => next.remove(id).finally(next.close))
  await expect(next.resume(id, { signal: new AbortController().signal })).rejects.toThrow(
    'could not create any TCP/IP sockets',
  )
})

test('clients without a password that use every connection delay a backup, but do not fail it', async () => {
  const { dataDir } = await nodeOf(join(await folder, 'data'))
  const id = newId('db')
  const instances = openInstances(dataDir)
  onTestFinished(() => instances.remove(id).finally(instances.close))
  const passwordVerifier = await scramVerifier('secret')
  const { signal } = new AbortController()
  const { host, port } = await instances.provision(id, { passwordVerifier, signal })
  await Promise.all(Array.from({ length: 75 }, () => askedForPassword(host, port)))
  let bytes = 0
  for await (const part of instances.backup(id, { bytesMax: Number.POSITIVE_INFINITY, onProgress() {}, signal }))
    bytes += part.length
  expect(bytes).toBeGreaterThan(0)
}, 60_000)

/** A connection that is asked for its password, or rejected for lack of room, and stays silent. */
async function askedForPassword(host: string, port: number): Promise<void> {
  const parameters = Buffer.from('user\0app\0database\0app\0\0')
  const head = Buffer.alloc(8)
  head.writeInt32BE(head.length + parameters.length, 0)
  head.writeInt32BE(0x0003_0000, 4)
  const socket = connect({ host, port }, () => socket.write(Buffer.concat([head, parameters])))
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => {})
  await once(socket, 'data')
}

test('a spare cluster of another PostgreSQL is removed, and the databases go on', async () => {
  const { dataDir } = await nodeOf(join(await folder, 'data'))
  const home = join(dataDir, 'databases')
  const spares = async () => (await readdir(home)).filter((name) => /^(spare|template)-/.test(name))
  const id = newId('db')
  const instances = openInstances(dataDir)
  const passwordVerifier = await scramVerifier('secret')
  await instances.provision(id, { passwordVerifier, signal: new AbortController().signal })
  await instances.prepare()
  await instances.close()
  const [earlier, ...more] = await spares()
  expect(more).toEqual([])
  await rename(join(home, earlier!), join(home, 'spare-1-another'))
  await mkdir(join(home, 'template-3-another'))
  const next = openInstances(dataDir)
  onTestFinished(() => next.remove(id).finally(next.close))
  await next.prepare()
  const found = await spares()
  expect([found.length, found.includes('spare-1-another')]).toEqual([1, false])
  await expect(next.resume(id, { signal: new AbortController().signal })).resolves.toBeDefined()
})

test('each database has a system identifier of its own, with a spare cluster and without', async () => {
  const { dataDir } = await nodeOf(join(await folder, 'identifiers'))
  const instances = openInstances(dataDir)
  const ids = [newId('db'), newId('db'), newId('db')]
  onTestFinished(async () => {
    for (const id of ids) await instances.remove(id)
    await instances.close()
  })
  const passwordVerifier = await scramVerifier('secret')
  // One of them gets the spare cluster.
  await instances.prepare()
  const found = await Promise.all(
    ids.map(async (id) => {
      const { host, port } = await instances.provision(id, { passwordVerifier, signal: new AbortController().signal })
      const sql = customerSql(connectionString(host, port, { hasTls: false }), 'secret')
      const [row] = await sql<[{ id: string }]>`select system_identifier::text as id from pg_control_system()`
      await sql.end({ timeout: 1 })
      return row.id
    }),
  )
  expect(new Set(found).size).toBe(ids.length)
}, 60_000)

test('closing aborts the preparation of a spare cluster, and leaves no files', async () => {
  const { dataDir } = await nodeOf(join(await folder, 'brief'))
  const home = join(dataDir, 'databases')
  const instances = openInstances(dataDir)
  const prepared = instances.prepare().then(
    () => 'prepared',
    () => 'aborted',
  )
  const isRunning = async () => {
    const [staging] = await readdir(home).catch(() => [])
    return access(join(home, staging ?? '', 'cluster/PG_VERSION')).then(
      () => true,
      () => false,
    )
  }
  await until(isRunning, (running) => running)
  await instances.close()
  expect(await prepared).toBe('aborted')
  expect(await readdir(home)).toEqual([])
})
