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
import { localCertificate } from '@keyhook/cli/receiver'
import { expect, onTestFinished, test } from 'vitest'
import { createDirectoryStore } from '../../src/archives/directory-store.ts'
import { scramVerifier } from '../../src/databases/database.ts'
import type { LocalInstances } from '../../src/databases/drivers/driver.ts'
import { type Home, nodeOf } from '../../src/databases/drivers/local/home.ts'
import { giveInstanceTo, type InstanceDirectory } from '../../src/databases/drivers/local/instance-directory.ts'
import { type DatabaseId, newId } from '../../src/lib/ids.ts'
import { firstClosedDirectory } from '../../src/postgres/account.ts'
import { openLog } from '../../src/postgres/log-file.ts'
import { foreignOwnerOf, giveClusterTo } from '../../src/postgres/ownership.ts'
import { makeMasterKey } from '../../src/startup/master-keys.ts'
import { asRoot, startHolder } from '../postgres/support/scratch.ts'
import { openInstances } from './support/local-instances.ts'
import { scratchFolder } from './support/platform.ts'

const nobody = { uid: 65_534, gid: 65_534 }
const passwordVerifier = await scramVerifier('secret')

async function dataDirectory(): Promise<string> {
  const folder = await scratchFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  return (await nodeOf(join(folder, 'data'))).dataDir
}

/** Opens the instances of the directory and closes them at the end. */
async function withInstances<T>(dataDir: string, work: (instances: LocalInstances) => Promise<T>): Promise<T> {
  const instances = openInstances(dataDir)
  try {
    return await work(instances)
  } finally {
    await instances.close()
  }
}

const provision = async (instances: LocalInstances): Promise<DatabaseId> => {
  const id = newId('db')
  await instances.provision(id, { passwordVerifier, signal: new AbortController().signal })
  return id
}

const give = (who: { uid: number; gid: number }, path: string) =>
  promisify(execFile)('chown', ['-R', `${who.uid}:${who.gid}`, path])

async function ownersIn(path: string): Promise<number[]> {
  const entries = await readdir(path, { recursive: true })
  const owners = await Promise.all(['', ...entries].map(async (name) => (await stat(join(path, name))).uid))
  return [...new Set(owners)]
}

test.skipIf(!asRoot)("root runs an ordinary user's databases as that user, and gives new files to them", async () => {
  const dataDir = await dataDirectory()
  const id = await withInstances(dataDir, provision)
  // As if that user had created it.
  await give(nobody, dataDir)
  await chmod(dataDir, 0o700)
  await withInstances(dataDir, async (instances) => {
    await instances.resume(id, { signal: new AbortController().signal })
    const backup = instances.backup(id, {
      bytesMax: Number.POSITIVE_INFINITY,
      onProgress() {},
      signal: new AbortController().signal,
    })
    const store = createDirectoryStore(join(dataDir, 'archives'), await foreignOwnerOf(dataDir))
    await store.put(`backups/${id}/${newId('bak')}.tar.zst`, backup)
    await provision(instances)
  })
  expect(await ownersIn(dataDir)).toEqual([nobody.uid])
})

test.skipIf(!asRoot)('databases that root restored with a plain copy get their account as owner again', async () => {
  const dataDir = await dataDirectory()
  const id = await withInstances(dataDir, provision)
  const home = join(dataDir, 'databases')
  await give({ uid: 0, gid: 0 }, dataDir)
  // The modes of a copy under a strict umask.
  for (const path of [home, join(home, id)]) await chmod(path, 0o700)
  await withInstances(dataDir, async (instances) => {
    await instances.resume(id, { signal: new AbortController().signal })
    // From the template, which was copied as well.
    const another = await provision(instances)
    expect((await instances.existing()).sort()).toEqual([id, another].sort())
  })
})

test.skipIf(!asRoot)(
  'an ordinary user learns at the start which files they cannot use, why, and what to do',
  async (context) => {
    if (await firstClosedDirectory(dirname(process.execPath), nobody)) return context.skip()
    const dataDir = await dataDirectory()
    await mkdir(join(dataDir, 'archives'))
    await mkdir(join(dataDir, 'lost+found'), { mode: 0o700 })
    const instance = join(dataDir, 'databases', newId('db'))
    await mkdir(instance, { recursive: true })
    await writeFile(join(instance, 'port'), '15432\n', { mode: 0o600 })
    const startError = async () => {
      const owner = startHolder(dataDir, 'serve', nobody)
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
      expect(await startError()).toMatch(
        `${path} belongs to the user with id 0, but Keyhook runs as the user with id 65534: change the owner ` +
          `(as root: chown -R 65534:65534 ${dataDir}/${top})`,
      )
      await chown(path, nobody.uid, nobody.gid)
    }
    // Files that are only read may be read-only.
    const archive = join(dataDir, 'archives', 'backups', newId('db'), `${newId('bak')}.tar.zst`)
    await mkdir(dirname(archive), { recursive: true })
    await writeFile(archive, '')
    await give(nobody, join(dataDir, 'archives'))
    for (const path of [archive, join(dataDir, 'id')]) await chmod(path, 0o400)
    const started = startHolder(dataDir, 'serve', nobody)
    await started.until((line) => line.ready === true)
    started.child.kill('SIGTERM')
    await started.ended
    // Their own files with a mode that denies access.
    for (const [path, closed] of [
      [join(dataDir, 'archives'), join(dataDir, 'archives')],
      [join(dataDir, 'id'), dataDir],
    ] as const) {
      await chmod(closed, 0)
      const error = await startError()
      await chmod(closed, 0o700)
      expect(error).toContain(path)
      expect(error).toContain(`: ${closed} is yours, but its mode (000) denies access: chmod u+rwX ${closed}.`)
    }
  },
)

test.runIf(asRoot)('a change of owner does not follow links', async () => {
  const folder = await scratchFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const elsewhere = join(folder, 'elsewhere')
  await mkdir(elsewhere, { mode: 0o700 })
  const link = join(folder, 'cluster')
  await symlink(elsewhere, link)
  await giveClusterTo(nobody, link)
  const home = { path: folder, account: nobody, uids: null } as Home
  await giveInstanceTo(nobody, home, { path: link, cluster: join(link, 'cluster') } as InstanceDirectory)
  const { uid, mode } = await stat(elsewhere)
  expect([uid, mode & 0o777]).toEqual([0, 0o700])
})

test.runIf(asRoot)('root never writes through a link that the owner of a data directory created', async () => {
  const folder = await scratchFolder()
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const [dataDir, secret] = [join(folder, 'data'), join(folder, 'secret')]
  await mkdir(dataDir)
  await writeFile(secret, 'of root', { mode: 0o600 })
  for (const name of [`master.key.${process.pid}`, 'postgres.log', 'postgres.log.old', 'key.pem', 'certificate.pem'])
    await symlink(secret, join(dataDir, name))
  await giveClusterTo(nobody, dataDir)
  await makeMasterKey(dataDir)
  await expect(openLog(dataDir)).rejects.toThrow('postgres.log is a link')
  await localCertificate(dataDir, new Date())
  await rm(join(dataDir, 'postgres.log'))
  const log = await openLog(dataDir, { checkEveryMs: 5 })
  // Replaced by a link while it is open: the old log is copied from the open file.
  await rename(log.path, join(dataDir, 'renamed'))
  await symlink(secret, log.path)
  await truncate(join(dataDir, 'renamed'), 11 * 1024 * 1024)
  await expect.poll(async () => (await stat(join(dataDir, 'renamed'))).size).toBe(0)
  await log.close()
  expect((await stat(join(dataDir, 'postgres.log.old'))).size).toBe(11 * 1024 * 1024)
  expect(await readFile(secret, 'utf8')).toBe('of root')
  expect((await lstat(join(dataDir, 'postgres.log.old'))).isFile()).toBe(true)
})
