import { execFile } from 'node:child_process'
import { chown, link, mkdir, rename, rm, stat, symlink, unlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { readLockFile } from '../../src/postgres/lock-file.ts'
import { openLog } from '../../src/postgres/log-file.ts'
import { stopOrphan } from '../../src/postgres/orphan.ts'
import { NotAClusterFile, removeTree, untrustedTree } from '../../src/postgres/untrusted-files.ts'
import { asRoot, scratch } from './support/scratch.ts'
import '../kit/server-limits.ts'

const us = process.getuid!()
const run = promisify(execFile)

/** A tree with one directory and one file, and a secret outside of it. */
async function treeForTest() {
  const folder = await scratch()
  const [root, outside] = [join(folder, 'cluster'), join(folder, 'outside')]
  for (const path of [root, join(root, 'pg_wal'), outside]) await mkdir(path)
  await writeFile(join(root, 'pg_wal/plain'), 'plain')
  await writeFile(join(outside, 'secret'), 'the master key')
  await writeFile(join(outside, 'plain'), 'the master key')
  return { root, outside, tree: untrustedTree(root, us) }
}

const contentOf = async (root: string, path: string) => (await untrustedTree(root, us).read(path, 100))?.toString()

test('a regular file is read, and a missing one is undefined', async () => {
  const { root, tree } = await treeForTest()
  expect(await contentOf(root, 'pg_wal/plain')).toBe('plain')
  expect(await contentOf(root, 'pg_wal/none')).toBeUndefined()
  expect(await contentOf(root, 'none/none')).toBeUndefined()
  expect((await tree.entries('pg_wal')).map(({ name }) => name)).toEqual(['plain'])
  expect(await tree.sizeOf('pg_wal/plain')).toBe(5)
  await expect(tree.read('pg_wal/plain', 4)).rejects.toThrow('larger than 4 bytes')
  await expect(tree.read('pg_wal/../../outside/secret', 100)).rejects.toThrow('not a plain path')
})

test('links, hard links, pipes, sockets and directories in the place of a file are rejected, and block nobody', async () => {
  const { root, outside } = await treeForTest()
  const at = (name: string) => join(root, 'pg_wal', name)
  await symlink(join(outside, 'secret'), at('link'))
  await link(join(outside, 'secret'), at('hard'))
  await run('mkfifo', [at('pipe')])
  await mkdir(at('directory'))
  const socket = createServer().listen(at('socket'))
  onTestFinished(() => void socket.close())
  await expect.poll(() => stat(at('socket'))).toBeDefined()
  for (const name of ['link', 'hard', 'pipe', 'directory', 'socket']) {
    await expect(contentOf(root, `pg_wal/${name}`), name).rejects.toBeInstanceOf(NotAClusterFile)
  }
})

test('a link in the place of a directory, or of the tree itself, is rejected', async () => {
  const { root, outside, tree } = await treeForTest()
  await symlink(outside, join(root, 'base'))
  await expect(contentOf(root, 'base/secret')).rejects.toBeInstanceOf(NotAClusterFile)
  await expect(tree.entries('base')).rejects.toBeInstanceOf(NotAClusterFile)
  expect(await tree.sizeOf('base/secret')).toBe(0)
  await rename(root, `${root}.moved`)
  await symlink(outside, root)
  await expect(contentOf(root, 'secret')).rejects.toBeInstanceOf(NotAClusterFile)
})

test.skipIf(!asRoot)('a file or directory of another user is rejected (needs root)', async () => {
  const { root } = await treeForTest()
  await chown(join(root, 'pg_wal/plain'), 65_534, 65_534)
  await expect(contentOf(root, 'pg_wal/plain')).rejects.toThrow('belongs to the user with id 65534')
  await chown(join(root, 'pg_wal'), 65_534, 65_534)
  await expect(contentOf(root, 'pg_wal/plain')).rejects.toThrow('pg_wal belongs to the user with id 65534')
})

test.skipIf(process.platform !== 'linux')(
  'a directory that is swapped for a link again and again never leads outside (needs Linux)',
  async () => {
    const { root, outside } = await treeForTest()
    const [directory, aside] = [join(root, 'pg_wal'), join(root, 'aside')]
    let reading = true
    const swapping = (async () => {
      while (reading) {
        await rename(directory, aside)
        await symlink(outside, directory)
        await turn()
        await unlink(directory)
        await rename(aside, directory)
      }
    })()
    const seen = new Set<string | undefined>()
    for (let reads = 0; reads < 500; reads++) {
      seen.add(await contentOf(root, 'pg_wal/plain').catch((error: Error) => error.name))
    }
    reading = false
    await swapping
    for (const result of seen) expect(['plain', undefined, 'NotAClusterFile']).toContain(result)
  },
)

test('the lock file of PostgreSQL is not read through a link or a pipe, and its contents remove no directory', async () => {
  const { root, outside } = await treeForTest()
  const lock = join(root, 'postmaster.pid')
  const empty = join(outside, 'empty')
  await mkdir(empty)
  await symlink(join(outside, 'secret'), lock)
  await expect(readLockFile(root)).rejects.toBeInstanceOf(NotAClusterFile)
  await unlink(lock)
  await run('mkfifo', [lock])
  await expect(stopOrphan(root, { note() {} })).rejects.toBeInstanceOf(NotAClusterFile)
  await unlink(lock)
  await writeFile(lock, `999999999\n${root}\n0\n5432\n${empty}\n\n\nready\n`)
  expect(await stopOrphan(root, { note() {} })).toBe('stopped')
  expect((await stat(empty)).isDirectory()).toBe(true)
})

test('a log is written into no link, hard link or pipe', async () => {
  const { root, outside } = await treeForTest()
  const log = join(root, 'postgres.log')
  await symlink(join(outside, 'secret'), log)
  await expect(openLog(root)).rejects.toThrow('is a link')
  await unlink(log)
  await link(join(outside, 'secret'), log)
  await expect(openLog(root)).rejects.toThrow('not a regular file')
  await unlink(log)
  await run('mkfifo', [log])
  await expect(openLog(root)).rejects.toThrow('not a regular file')
})

test('removing a tree follows no links, takes no name for an option, and can be repeated', async () => {
  const { root, outside } = await treeForTest()
  await symlink(outside, join(root, 'out'))
  await symlink(join(outside, 'secret'), join(root, '-rf'))
  await removeTree(root)
  await removeTree(root)
  await expect(stat(root)).rejects.toThrow('ENOENT')
  expect((await stat(join(outside, 'secret'))).size).toBeGreaterThan(0)
  await rm(outside, { recursive: true })
})
