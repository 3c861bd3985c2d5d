import { execFile } from 'node:child_process'
import {
  chmod,
  chown,
  lstat,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { scramVerifier } from '../../src/domain/scram.ts'
import { giveTo } from '../../src/embedded/cluster.ts'
import { hostOf } from '../../src/embedded/host.ts'
import { openLog } from '../../src/embedded/log-file.ts'
import { firstBarrier } from '../../src/embedded/reach.ts'
import { type DatabaseId, newId } from '../../src/kernel/ids.ts'
import { localCertificate } from '../../src/listen/certificate.ts'
import { createArchiveDirectory } from '../../src/platform/archive/archive-directory.ts'
import type { DatabaseDriver } from '../../src/platform/driver.ts'
import { type Home, nodeOf } from '../../src/platform/local/home.ts'
import { handOver, type InstanceDirectory } from '../../src/platform/local/instance-directory.ts'
import { makeMasterKey } from '../../src/startup/master-key-file.ts'
import { asRoot, startOwner } from '../embedded/support/scratch.ts'
import { openDriver } from './support/local-driver.ts'
import { scratchFolder } from './support/platform.ts'

const nobody = { uid: 65_534, gid: 65_534 }
const passwordVerifier = await scramVerifier('secret')

async function dataDirectory(): Promise<string> {
  const folder = await scratchFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return (await nodeOf(join(folder, 'data'))).dataDir
}

/** One start of a node's driver on the directory, stopped again at its end. */
async function withDriver<T>(dataDir: string, work: (driver: DatabaseDriver) => Promise<T>): Promise<T> {
  const driver = openDriver(dataDir)
  try {
    return await work(driver)
  } finally {
    await driver.close()
  }
}

const provision = async (driver: DatabaseDriver): Promise<DatabaseId> => {
  const id = newId('db')
  await driver.provision(id, { passwordVerifier, signal: new AbortController().signal })
  return id
}

const give = (who: { uid: number; gid: number }, path: string) =>
  promisify(execFile)('chown', ['-R', `${who.uid}:${who.gid}`, path])

async function ownersIn(path: string): Promise<number[]> {
  const entries = await readdir(path, { recursive: true })
  const owners = await Promise.all(['', ...entries].map(async (name) => (await stat(join(path, name))).uid))
  return [...new Set(owners)]
}

test.skipIf(!asRoot)(
  "root runs an ordinary user's databases as that user, and leaves what it makes to them",
  async () => {
    const dataDir = await dataDirectory()
    const id = await withDriver(dataDir, provision)
    // As that user would have made it.
    await give(nobody, dataDir)
    await chmod(dataDir, 0o700)
    await withDriver(dataDir, async (driver) => {
      await driver.resume(id, { signal: new AbortController().signal })
      const backup = driver.backup(id, { onProgress() {}, signal: new AbortController().signal })
      await createArchiveDirectory(join(dataDir, 'archives'), await hostOf(dataDir)).write(newId('bak'), backup)
      await provision(driver)
    })
    expect(await ownersIn(dataDir)).toEqual([nobody.uid])
  },
)

test.skipIf(!asRoot)('databases that root restored with a plain copy are given back to their account', async () => {
  const dataDir = await dataDirectory()
  const id = await withDriver(dataDir, provision)
  const home = join(dataDir, 'databases')
  await give({ uid: 0, gid: 0 }, dataDir)
  // What a copy under a strict umask leaves of the modes.
  for (const path of [home, join(home, id)]) await chmod(path, 0o700)
  await withDriver(dataDir, async (driver) => {
    await driver.resume(id, { signal: new AbortController().signal })
    // From the template, which was copied as well.
    await provision(driver)
  })
})

test.skipIf(!asRoot)(
  'an ordinary user is told at the start which files are closed to them, why, and what to do',
  async (context) => {
    if (await firstBarrier(dirname(process.execPath), nobody)) return context.skip()
    const dataDir = await dataDirectory()
    await mkdir(join(dataDir, 'archives'))
    await mkdir(join(dataDir, 'lost+found'), { mode: 0o700 })
    const instance = join(dataDir, 'databases', newId('db'))
    await mkdir(instance, { recursive: true })
    await writeFile(join(instance, 'port'), '15432\n', { mode: 0o600 })
    const refusal = async () => {
      const owner = startOwner(dataDir, 'serve', nobody)
      const failed = await owner.until((line) => line.ready === true).catch((error: Error) => error.message)
      await owner.ended
      return failed
    }
    await give(nobody, dataDir)
    await chown(join(dataDir, 'lost+found'), 0, 0)
    for (const [path, top] of [
      [join(instance, 'port'), 'databases'],
      [instance, 'databases'],
      [join(dataDir, 'archives'), 'archives'],
    ] as const) {
      await chown(path, 0, 0)
      expect(await refusal()).toMatch(
        `${path} belongs to the user with id 0, and Keyhook runs as the one with id 65534: have it given back ` +
          `(as root: chown -R 65534:65534 ${dataDir}/${top})`,
      )
      await chown(path, nobody.uid, nobody.gid)
    }
    // What is only read may be kept from being written to.
    const archive = join(dataDir, 'archives', `${newId('bak')}.tar.zst`)
    await writeFile(archive, '')
    await chown(archive, nobody.uid, nobody.gid)
    for (const path of [archive, join(dataDir, 'id')]) await chmod(path, 0o400)
    const started = startOwner(dataDir, 'serve', nobody)
    await started.until((line) => line.ready === true)
    started.child.kill('SIGTERM')
    await started.ended
    // Their own, and closed all the same: nobody else is to blame.
    for (const [path, closed] of [
      [join(dataDir, 'archives'), join(dataDir, 'archives')],
      [join(dataDir, 'id'), dataDir],
    ] as const) {
      await chmod(closed, 0)
      const refused = await refusal()
      await chmod(closed, 0o700)
      expect(refused).toContain(path)
      expect(refused).toContain(`, ${closed} is yours, and its mode (000) keeps you out: chmod u+rwX ${closed}.`)
    }
  },
)

test.runIf(asRoot)('what is behind a link is not given to anybody', async () => {
  const folder = await scratchFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const elsewhere = join(folder, 'elsewhere')
  await mkdir(elsewhere, { mode: 0o700 })
  const link = join(folder, 'cluster')
  await symlink(elsewhere, link)
  await giveTo(nobody, link)
  const home = { path: folder, account: nobody } as Home
  await handOver(home, { path: link, cluster: join(link, 'cluster') } as InstanceDirectory)
  const { uid, mode } = await stat(elsewhere)
  expect([uid, mode & 0o777]).toEqual([0, 0o700])
})

test.runIf(asRoot)('root writes through no link that the owner of a data directory has put there', async () => {
  const folder = await scratchFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const [dataDir, precious] = [join(folder, 'data'), join(folder, 'precious')]
  await mkdir(dataDir)
  await writeFile(precious, 'of root', { mode: 0o600 })
  for (const name of [`master.key.${process.pid}`, 'postgres.log', 'postgres.log.old', 'key.pem', 'certificate.pem'])
    await symlink(precious, join(dataDir, name))
  await giveTo(nobody, dataDir)
  await makeMasterKey(dataDir)
  await expect(openLog(dataDir)).rejects.toThrow('postgres.log is a link')
  await localCertificate(dataDir, new Date())
  await rm(join(dataDir, 'postgres.log'))
  const log = await openLog(dataDir, { lookEveryMs: 5 })
  // Exchanged while it is open: what is kept of the log is what was written to it.
  await rename(log.path, join(dataDir, 'away'))
  await symlink(precious, log.path)
  await truncate(join(dataDir, 'away'), 11 * 1024 * 1024)
  await expect.poll(async () => (await stat(join(dataDir, 'away'))).size).toBe(0)
  await log.close()
  expect((await stat(join(dataDir, 'postgres.log.old'))).size).toBe(11 * 1024 * 1024)
  expect(await readFile(precious, 'utf8')).toBe('of root')
  expect((await lstat(join(dataDir, 'postgres.log.old'))).isFile()).toBe(true)
})
