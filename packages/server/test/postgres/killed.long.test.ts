import { type ChildProcess, spawn } from 'node:child_process'
import { access, chown, open as openFile, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { askLockHolder, tryLock } from '../../src/postgres/data-directory-lock.ts'
import { DataDirectoryInUse } from '../../src/postgres/index.ts'
import { isPostgresOn, parseLockFile, readLockFile } from '../../src/postgres/lock-file.ts'
import { removeDeadSegments } from '../../src/postgres/orphan.ts'
import { dataDirectory, notes, open, putNote, scratch, startHolder } from './support/scratch.ts'

test('after kill -9 of Keyhook the next start stops the orphan and has every committed row', async () => {
  const dataDir = await dataDirectory()
  const owner = startHolder(dataDir, 'serve')
  const { connection } = await owner.until((line) => line.ready === true)
  await putNote(connection!, 'committed')
  const orphan = (await readLockFile(join(dataDir, 'postgres')))!.pid
  owner.child.kill('SIGKILL')
  await owner.ended
  expect(await isPostgresOn(join(dataDir, 'postgres'), orphan)).toBe(true)

  const noted: string[] = []
  const next = await open(dataDir, 'serve', { note: (text) => void noted.push(text) })
  expect(await isPostgresOn(join(dataDir, 'postgres'), orphan)).toBe(false)
  expect(noted).toEqual([expect.stringContaining(`pid ${orphan}`)])
  expect(await notes(next.connection)).toEqual(['committed'])
})

test('after kill -9 of Keyhook and of PostgreSQL the next start recovers every committed row', async () => {
  const dataDir = await dataDirectory()
  const owner = startHolder(dataDir, 'serve')
  const { connection } = await owner.until((line) => line.ready === true)
  await putNote(connection!, 'committed')
  const { pid } = (await readLockFile(join(dataDir, 'postgres')))!
  owner.child.kill('SIGKILL')
  process.kill(pid, 'SIGKILL')
  await owner.ended
  expect(await notes((await open(dataDir)).connection)).toEqual(['committed'])
})

test.skipIf(process.platform !== 'linux')(
  'shared memory of a killed server is removed, and none of a running one',
  async () => {
    const [killed, running] = [await dataDirectory(), await dataDirectory()]
    const owner = startHolder(killed, 'serve')
    await owner.until((line) => line.ready === true)
    await open(running)
    const segmentsOf = async (dataDir: string) => {
      const { pid } = (await readLockFile(join(dataDir, 'postgres')))!
      const [, id] = (await readFile(join(dataDir, 'postgres/postmaster.pid'), 'utf8'))
        .split('\n')[6]!
        .trim()
        .split(/\s+/)
      const maps = await readFile(`/proc/${pid}/maps`, 'utf8')
      return { pid, id: id!, files: [...new Set(maps.match(/\/dev\/shm\/PostgreSQL\.\d+/g))] }
    }
    const areThere = async ({ id, files }: { id: string; files: string[] }) => {
      const isListed = new RegExp(`^ *-?\\d+ +${id} `, 'm').test(await readFile('/proc/sysvipc/shm', 'utf8'))
      const found = await Promise.all(
        files.map((file) =>
          access(file).then(
            () => true,
            () => false,
          ),
        ),
      )
      return [isListed, ...found]
    }
    const [dead, alive] = [await segmentsOf(killed), await segmentsOf(running)]
    expect(dead.files.length).toBeGreaterThan(0)
    owner.child.kill('SIGKILL')
    process.kill(dead.pid, 'SIGKILL')
    await owner.ended
    const { uid } = await stat(join(killed, 'postgres'))
    await expect
      .poll(async () => {
        await removeDeadSegments(uid, 500)
        return areThere(dead)
      })
      .not.toContain(true)
    expect(await areThere(alive)).not.toContain(false)
  },
)

test.skipIf(process.platform !== 'linux')(
  'shared memory that a running server lists, and none of its processes has mapped, stays',
  async () => {
    const dataDir = await dataDirectory()
    await open(dataDir)
    const { pid } = (await readLockFile(join(dataDir, 'postgres')))!
    const { uid, gid } = await stat(join(dataDir, 'postgres'))
    const [list] = (await readFile(`/proc/${pid}/maps`, 'utf8')).match(/\/dev\/shm\/PostgreSQL\.\d+/)!
    // The end of the list is empty in a server with few connections.
    const [listed, unknown, tooLarge] = [3_999_999_901, 3_999_999_902, 99_999_999_999]
    const handle = Buffer.alloc(4)
    handle.writeUInt32LE(listed)
    const file = await openFile(list, 'r+')
    await file.write(handle, 0, 4, (await file.stat()).size - 4)
    await file.close()
    const paths = [listed, unknown, tooLarge].map((one) => `/dev/shm/PostgreSQL.${one}`)
    for (const path of paths) {
      await writeFile(path, '')
      await chown(path, uid, gid)
      onTestFinished(() => rm(path, { force: true }))
    }
    await sleep(600)
    await removeDeadSegments(uid, 500)
    await access(paths[0]!)
    await expect(access(paths[1]!)).rejects.toThrow()
  },
)

test('an initialisation that was killed is repeated', async () => {
  const dataDir = await dataDirectory()
  const owner = startHolder(dataDir, 'serve')
  await owner.until((line) => line.note?.includes('first start only') === true)
  const unfinished = async () => (await readdir(dataDir)).filter((name) => name.includes('.preparing-'))
  const started = async () => {
    const [staging] = await unfinished()
    return (
      staging !== undefined &&
      access(join(dataDir, staging, 'cluster/PG_VERSION')).then(
        () => true,
        () => false,
      )
    )
  }
  while (!(await started())) await sleep(2)
  owner.child.kill('SIGKILL')
  await owner.ended
  await expect(access(join(dataDir, 'postgres'))).rejects.toThrow()

  const next = await open(dataDir)
  await putNote(next.connection, 'works')
  expect(await notes(next.connection)).toEqual(['works'])
  await next.stop()
  // The orphaned initdb may go on writing for a while; a start after its end removes the rest.
  while ((await unfinished()).length > 0) await (await open(dataDir)).stop()
})

test('a stale lock file whose pid belongs to another program does not block a start', async () => {
  const dataDir = await dataDirectory()
  await (await open(dataDir)).stop()
  const other = sleeperLike(await stat(join(dataDir, 'postgres')))
  await writeLock(dataDir, other.pid!, '')
  expect((await open(dataDir)).owned).toBe(true)
  expect(other.exitCode).toBeNull()
  expect(other.signalCode).toBeNull()
})

test('a server that answers but is not a local process, as in another container, blocks a start', async () => {
  const dataDir = await dataDirectory()
  await (await open(dataDir)).stop()
  const sockets = await scratch()
  const elsewhere = createServer((socket) => socket.destroy())
  await new Promise<void>((done) => elsewhere.listen({ path: join(sockets, '.s.PGSQL.5432') }, done))
  onTestFinished(() => new Promise((done) => elsewhere.close(() => done())))
  await writeLock(dataDir, 2 ** 22 + 1, sockets)
  await expect(open(dataDir)).rejects.toBeInstanceOf(DataDirectoryInUse)
  expect(await readFile(join(dataDir, 'postgres/postmaster.pid'), 'utf8')).toContain(sockets)
})

test('the socket file of a killed holder is taken over by exactly one of many processes', async () => {
  const address = join(await scratch(), 'lock.sock')
  const script = "require('net').createServer().listen(process.argv[1], () => console.log('locked'))"
  const dead = spawn(process.execPath, ['-e', script, address], { stdio: ['ignore', 'pipe', 'inherit'] })
  await new Promise((done) => dead.stdout.once('data', done))
  dead.kill('SIGKILL')
  await new Promise((done) => dead.once('exit', done))
  await access(address)

  const locks = (await Promise.all(Array.from({ length: 8 }, () => tryLock(address, 'serve')))).filter((lock) => lock)
  onTestFinished(async () => {
    for (const lock of locks) await lock!.release()
  })
  expect(locks).toHaveLength(1)
  expect(await askLockHolder(address)).toMatchObject({ pid: process.pid })
})

test('a lock file is parsed at every stage of a start', () => {
  const early = parseLockFile('17\n/data\n1700000000\n5432\n')
  expect(early).toEqual({ pid: 17, socketDirectory: undefined, ready: false })
  const ready = parseLockFile('17\n/data\n1700000000\n5432\n/sockets\n\n  123 4\nready   \n')
  expect(ready).toEqual({ pid: 17, socketDirectory: '/sockets', ready: true })
  expect(parseLockFile('')).toBeUndefined()
})

async function writeLock(dataDir: string, pid: number, sockets: string): Promise<void> {
  const cluster = join(dataDir, 'postgres')
  const { uid, gid } = await stat(cluster)
  const text = [pid, cluster, 1_700_000_000, 5432, sockets, '', '  0 0', 'ready   ', ''].join('\n')
  for (const name of ['postmaster.pid', '.s.PGSQL.5432.lock']) {
    await writeFile(join(cluster, name), text, { mode: 0o600 })
    await chown(join(cluster, name), uid, gid)
  }
}

/** Runs as the account of the cluster: PostgreSQL itself would take its pid for a running postmaster. */
function sleeperLike({ uid, gid }: { uid: number; gid: number }): ChildProcess {
  const sleeper = spawn('sleep', ['600'], { uid, gid, cwd: '/', stdio: 'ignore' })
  onTestFinished(() => void sleeper.kill('SIGKILL'))
  return sleeper
}
