import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { checkArchiveDirectory, createDirectoryStore } from '../../src/archives/directory-store.ts'
import { smallDisk } from '../kit/small-disk.ts'
import { stream, testStore } from './store-conformance.ts'

let root: string
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'keyhook-store-'))
})
afterAll(() => rm(root, { recursive: true }))

testStore('directory', {
  open: async (place) => createDirectoryStore(join(root, place)),
  largeBytes: 1_000_000,
  async interruptPut(place, name) {
    const path = join(root, place, name)
    await mkdir(join(path, '..'), { recursive: true })
    await writeFile(`${path}.writing-0123456789ab`, 'half')
  },
})

test('directories that became empty are removed', async () => {
  const path = join(root, 'emptied')
  const store = createDirectoryStore(path)
  await store.put('wal/db_1/1/a', stream(Buffer.from('a')))
  await store.remove('wal/db_1/1/a')
  expect(await readdir(path)).toEqual([])
})

test('a disk that is full while an object is written leaves nothing, and works again once there is room', async (context) => {
  const disk = await smallDisk('size=2m')
  if (disk === null) return context.skip('this user may not mount a tmpfs')
  const store = createDirectoryStore(join(disk, 'archives'))
  await store.put('backups/db_1/small', stream(Buffer.alloc(100_000)))
  const tooMuch = store.put('backups/db_1/large', stream(...Array.from({ length: 40 }, () => Buffer.alloc(100_000))))
  await expect(tooMuch).rejects.toThrow('ENOSPC')
  expect(await readdir(join(disk, 'archives', 'backups', 'db_1'))).toEqual(['small'])
  await store.put('backups/db_1/other', stream(Buffer.alloc(1_000_000)))
  expect(await store.head('backups/db_1/other')).toEqual({ bytes: 1_000_000 })
})

test('a missing directory for archives is created with mode 0700', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'keyhook-archives-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const path = join(folder, 'some', 'where')
  expect(await checkArchiveDirectory(path)).toEqual({ problem: null })
  expect((await stat(path)).mode & 0o777).toBe(0o700)
})

test('a directory for archives on a read-only disk is rejected at the start', async (context) => {
  const disk = await smallDisk('size=1m,ro')
  if (disk === null) return context.skip()
  const rejected = checkArchiveDirectory(disk)
  await expect(rejected).rejects.toThrow(/cannot be used: archives cannot be written and read there \(EROFS\)/)
})

test('a full disk for archives is reported, and the node starts', async (context) => {
  const disk = await smallDisk('size=1m,nr_inodes=1')
  if (disk === null) return context.skip()
  const { problem } = await checkArchiveDirectory(join(disk, 'archives'))
  expect(problem?.message).toContain('cannot be made (ENOSPC)')
})

test('writing to a directory that cannot be created fails at once', async () => {
  const store = createDirectoryStore('/proc/keyhook/archives')
  await expect(store.put('a', stream())).rejects.toThrow('/proc/keyhook cannot be made')
})
