import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import { newId } from '../../src/kernel/ids.ts'
import { checkArchiveDirectory, createArchiveDirectory } from '../../src/platform/archive/archive-directory.ts'
import { compress } from '../../src/platform/archive/compress.ts'
import { encodeManifest, manifestPath } from '../../src/platform/archive/manifest.ts'
import { readArchive } from '../../src/platform/archive/read-archive.ts'
import { decodeHeader, encodeHeader, endOfArchive, paddingAfter } from '../../src/platform/archive/tar.ts'
import { DamagedArchive } from '../../src/platform/driver.ts'
import { smallDisk } from '../support/small-disk.ts'

type Files = Record<string, Buffer>

function* tarOf(files: Files, manifested: Files = files): Generator<Buffer> {
  yield encodeHeader({ path: 'base', kind: 'directory', size: 0 })
  for (const [path, content] of Object.entries(files)) {
    yield encodeHeader({ path, kind: 'file', size: content.length })
    yield content
    yield paddingAfter(content.length)
  }
  const described = Object.entries(manifested).map(([path, content]) => ({
    path,
    bytes: content.length,
    sha256: createHash('sha256').update(content).digest('hex'),
  }))
  const about = { database_id: 'db', postgres_version: '18', start_lsn: '0/1', stop_lsn: '0/2' }
  const manifest = encodeManifest({ format: 1, ...about, files: described })
  yield encodeHeader({ path: manifestPath, kind: 'file', size: manifest.length })
  yield manifest
  yield paddingAfter(manifest.length)
  yield endOfArchive()
}

async function* stream(parts: Iterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield* parts
}

async function packed(parts: Iterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  for await (const chunk of compress(stream(parts))) chunks.push(chunk)
  return Buffer.concat(chunks)
}

async function unpacked(archive: Buffer): Promise<Files> {
  const files: [string, Buffer][] = []
  await readArchive(stream([archive]), {
    async directory() {},
    async file(path, body) {
      const chunks: Buffer[] = []
      for await (const chunk of body) chunks.push(chunk)
      files.push([path, Buffer.concat(chunks)])
    },
  })
  // Not by assignment: a file may be called __proto__.
  return Object.fromEntries(files)
}

const someFiles: Files = {
  'base/1': Buffer.alloc(8_192, 7),
  'base/empty': Buffer.alloc(0),
  PG_VERSION: Buffer.from('18\n'),
}

test('what goes into an archive comes out of it, byte for byte', async () => {
  const name = fc.stringMatching(/^[a-z0-9_]{1,20}(\/[a-z0-9_]{1,20}){0,2}$/)
  const content = fc.uint8Array({ maxLength: 3_000 }).map((bytes) => Buffer.from(bytes))
  await fc.assert(
    fc.asyncProperty(fc.dictionary(name, content, { noNullPrototype: true }), async (files) => {
      expect(Object.entries(await unpacked(await packed(tarOf(files))))).toEqual(Object.entries(files))
    }),
    { numRuns: 50, examples: [[Object.fromEntries([['__proto__', Buffer.from('a file like others')]])]] },
  )
})

test('an archive with any one byte changed, or with its end cut off, is refused', async () => {
  const archive = await packed(tarOf(someFiles))
  await fc.assert(
    fc.asyncProperty(fc.nat(archive.length - 1), fc.integer({ min: 1, max: 255 }), async (place, flip) => {
      const changed = Buffer.from(archive)
      changed[place] = changed[place]! ^ flip
      // zstd ignores a few bits of its frame header; whatever comes out all the same must be what went in.
      const outcome = await unpacked(changed).catch((error: unknown) => error)
      if (outcome instanceof Error) expect(outcome).toBeInstanceOf(DamagedArchive)
      else expect(outcome).toEqual(someFiles)
    }),
    { numRuns: 200 },
  )
  for (const length of [0, 1, 20, archive.length >> 1, archive.length - 1]) {
    await expect(unpacked(archive.subarray(0, length))).rejects.toBeInstanceOf(DamagedArchive)
  }
})

test('a file that differs from the manifest, is missing from it or from the archive is damage', async () => {
  const different = { ...someFiles, PG_VERSION: Buffer.from('17\n') }
  const { PG_VERSION: _left, ...fewer } = someFiles
  for (const [inside, named] of [
    [someFiles, different],
    [someFiles, fewer],
    [fewer, someFiles],
  ] as const) {
    await expect(unpacked(await packed(tarOf(inside, named)))).rejects.toBeInstanceOf(DamagedArchive)
  }
})

test('a large manifest is read in seconds, and not for as long as the square of its size', async () => {
  const content = Buffer.alloc(128 * 1024 * 1024)
  const parts = [encodeHeader({ path: manifestPath, kind: 'file', size: content.length }), content, endOfArchive()]
  await expect(unpacked(await packed(parts))).rejects.toThrow('its manifest cannot be read')
}, 20_000)

test('an entry that points outside the directory is refused', async () => {
  for (const path of ['../evil', '/etc/passwd', 'base/../../evil']) {
    await expect(unpacked(await packed(tarOf({ [path]: Buffer.from('x') })))).rejects.toThrow('points outside')
  }
})

test('a source that fails while nobody reads yet fails whoever reads, and nobody else', async () => {
  async function* failing(): AsyncGenerator<Uint8Array> {
    yield await Promise.reject(new Error('the source failed'))
  }
  const parts = compress(failing())
  await sleep(50)
  await expect(parts.next()).rejects.toThrow('the source failed')
})

test('an archive that cannot be opened never begins its source; one that is not read on waits until its source has ended', async () => {
  let stage = 'not begun'
  async function* source(): AsyncGenerator<Uint8Array> {
    stage = 'begun'
    try {
      for (;;) yield randomBytes(1_000_000)
    } finally {
      await sleep(50)
      stage = 'ended'
    }
  }
  const archives = createArchiveDirectory(import.meta.filename)
  await expect(archives.write(newId('bak'), compress(source()))).rejects.toThrow()
  await sleep(50)
  expect(stage).toBe('not begun')
  for await (const _part of compress(source())) break
  expect(stage).toBe('ended')
})

test('a directory of archives that is missing is made', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'keyhook-archives-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const path = join(folder, 'some', 'where')
  expect(await checkArchiveDirectory(path)).toEqual({ problem: null })
  expect((await stat(path)).mode & 0o777).toBe(0o700)
})

test('a directory of archives that nobody can write to is refused', async (context) => {
  const disk = await smallDisk('size=1m,ro')
  if (disk === null) return context.skip()
  await expect(checkArchiveDirectory(disk)).rejects.toThrow(
    /^KEYHOOK_ARCHIVES_DIR: .* written and read there \(EROFS\)/,
  )
})

test('a disk for archives that has no room is a problem to report, and no reason not to start', async (context) => {
  const disk = await smallDisk('size=1m,nr_inodes=1')
  if (disk === null) return context.skip()
  const { problem } = await checkArchiveDirectory(join(disk, 'archives'))
  expect(problem?.message).toContain('cannot be made (ENOSPC)')
})

test('an archive is not waited for where its directory can never be made', async () => {
  const archives = createArchiveDirectory('/proc/keyhook/archives')
  await expect(archives.write(newId('bak'), stream([]))).rejects.toThrow('/proc/keyhook cannot be made')
})

test('a header says back what it was given', () => {
  for (const entry of [
    { path: 'base/1/2', kind: 'file', size: 1_073_741_824 },
    { path: 'pg_wal', kind: 'directory', size: 0 },
  ] as const) {
    expect(decodeHeader(encodeHeader(entry))).toEqual(entry)
  }
})

test('an archive directory shows whole archives only, and removes what an interrupted write left', async () => {
  const path = await mkdtemp(join(tmpdir(), 'keyhook-archives-'))
  onTestFinished(() => rm(path, { recursive: true }))
  const archives = createArchiveDirectory(join(path, 'in'))
  const id = newId('bak')
  expect(await archives.existing()).toEqual([])
  async function* broken(): AsyncGenerator<Uint8Array> {
    yield Buffer.from('half')
    throw new Error('the source failed')
  }
  await expect(archives.write(id, broken())).rejects.toThrow('the source failed')
  expect(await archives.existing()).toEqual([])
  const stored = await archives.write(id, stream([Buffer.from('whole')]))
  expect(stored).toEqual({ bytes: 5, sha256: createHash('sha256').update('whole').digest('hex') })
  expect((await readFile(join(path, 'in', `${id}.tar.zst`))).toString()).toBe('whole')
  const killed = newId('bak')
  await writeFile(join(path, 'in', `${killed}.tar.zst.writing-abc`), 'half')
  expect((await archives.existing()).sort()).toEqual([id, killed].sort())
  await archives.remove(killed)
  await archives.remove(killed)
  expect(await archives.existing()).toEqual([id])
})
