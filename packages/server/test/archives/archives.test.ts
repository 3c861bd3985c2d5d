import { createHash, randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { zstdCompressSync } from 'node:zlib'
import fc from 'fast-check'
import { type Header, pack } from 'tar-stream'
import { expect, test } from 'vitest'
import { type ArchiveWriter, readArchive, writeArchive } from '../../src/archives/archive.ts'
import { encodeManifest, manifestPath } from '../../src/archives/archive-store.ts'
import { createDirectoryStore } from '../../src/archives/directory-store.ts'
import { DamagedArchive } from '../../src/lib/step-failure.ts'
import '../kit/server-limits.ts'

type Files = Record<string, Buffer>
const info = { database_id: 'db', postgres_version: '18', start_lsn: '0/1', stop_lsn: '0/2' }
const sha256 = (content: Buffer) => createHash('sha256').update(content).digest('hex')

async function* stream(parts: Iterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield* parts
}

async function collect(parts: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  for await (const chunk of parts) chunks.push(chunk)
  return Buffer.concat(chunks)
}

const archiveOf = (files: Files): Promise<Buffer> =>
  collect(
    writeArchive(async (archive) => {
      await archive.directory('base')
      for (const [path, content] of Object.entries(files)) await archive.file(path, content.length, stream([content]))
      return info
    }),
  )

type TarEntry = Partial<Header> & { name: string; content?: Buffer }

/** An archive that our own writer would not make. */
async function craftedArchive(entries: TarEntry[], listed: Files = {}): Promise<Buffer> {
  const tar = pack()
  for (const { content = Buffer.alloc(0), ...header } of entries) tar.entry(header, content)
  const files = Object.entries(listed).map(([path, content]) => ({
    path,
    bytes: content.length,
    sha256: sha256(content),
  }))
  tar.entry({ name: manifestPath }, encodeManifest({ format: 1, ...info, files }))
  tar.finalize()
  return zstdCompressSync(await collect(tar as AsyncIterable<Uint8Array>))
}

const everything = { bytesMax: Number.POSITIVE_INFINITY }

async function readBack(archive: Buffer, limit = everything): Promise<Files> {
  const files: [string, Buffer][] = []
  await readArchive(
    stream([archive]),
    {
      async directory() {},
      async file(path, body) {
        files.push([path, await collect(body)])
      },
    },
    limit,
  )
  // Not by assignment: a file may be called __proto__.
  return Object.fromEntries(files)
}

const someFiles: Files = {
  'base/1': Buffer.alloc(8_192, 7),
  'base/empty': Buffer.alloc(0),
  PG_VERSION: Buffer.from('18\n'),
}

test('what is written to an archive is read from it, byte for byte', async () => {
  const name = fc.stringMatching(/^[a-z0-9_]{1,20}(\/[a-z0-9_]{1,20}){0,2}$/)
  const content = fc.uint8Array({ maxLength: 3_000 }).map((bytes) => Buffer.from(bytes))
  const unusual = ['__proto__', 'constructor', 'é ü 漢', `deep/${'long'.repeat(50)}/file`, 'a"b,c=d']
  await fc.assert(
    fc.asyncProperty(fc.dictionary(name, content, { noNullPrototype: true }), async (files) => {
      expect(Object.entries(await readBack(await archiveOf(files)))).toEqual(Object.entries(files))
    }),
    { numRuns: 50, examples: [[Object.fromEntries(unusual.map((path) => [path, Buffer.from(path)]))]] },
  )
})

test('an archive with one changed byte, or without its end, is rejected', async () => {
  const archive = await archiveOf(someFiles)
  await fc.assert(
    fc.asyncProperty(fc.nat(archive.length - 1), fc.integer({ min: 1, max: 255 }), async (place, flip) => {
      const changed = Buffer.from(archive)
      changed[place] = changed[place]! ^ flip
      // zstd ignores a few bits of its frame header. If it can be read, it must be what was written.
      const outcome = await readBack(changed).catch((error: unknown) => error)
      if (outcome instanceof Error) expect(outcome).toBeInstanceOf(DamagedArchive)
      else expect(outcome).toEqual(someFiles)
    }),
    { numRuns: 200 },
  )
  for (const length of [0, 1, 20, archive.length >> 1, archive.length - 1]) {
    await expect(readBack(archive.subarray(0, length))).rejects.toBeInstanceOf(DamagedArchive)
  }
})

test('a file that differs from the manifest, or is missing there or in the archive, is reported as damage', async () => {
  const different = { ...someFiles, PG_VERSION: Buffer.from('17\n') }
  const { PG_VERSION: _left, ...fewer } = someFiles
  const entriesOf = (files: Files) => Object.entries(files).map(([name, content]) => ({ name, content }))
  expect(await readBack(await craftedArchive(entriesOf(someFiles), someFiles))).toEqual(someFiles)
  for (const [inside, listed, problem] of [
    [someFiles, different, 'PG_VERSION differs'],
    [someFiles, fewer, 'files that its manifest does not list'],
    [fewer, someFiles, 'PG_VERSION is missing'],
  ] as const) {
    const archive = await craftedArchive(entriesOf(inside), listed)
    await expect(readBack(archive)).rejects.toThrow(`The archive is damaged: `)
    await expect(readBack(archive)).rejects.toThrow(problem)
  }
})

test('an entry outside of the directory is rejected before its content is read', async () => {
  const content = Buffer.from('x')
  for (const name of [
    '../evil',
    '/etc/passwd',
    'base/../../evil',
    'base//evil',
    './evil',
    `${'long/'.repeat(60)}../evil`,
  ]) {
    const archive = await craftedArchive([{ name, content }], { [name]: content })
    await expect(readBack(archive), name).rejects.toThrow('points outside')
  }
})

test('links, devices and other entries that are neither files nor directories are rejected', async () => {
  const entries: TarEntry[] = [
    { name: 'base/link', type: 'symlink', linkname: '/etc/passwd' },
    { name: 'base/hard', type: 'link', linkname: 'PG_VERSION' },
    { name: 'base/device', type: 'character-device', devmajor: 1, devminor: 3 },
    { name: 'base/pipe', type: 'fifo' },
  ]
  for (const entry of entries) {
    const archive = await craftedArchive([entry])
    await expect(readBack(archive), entry.name).rejects.toThrow('neither a file nor a directory')
  }
})

test('a large manifest is read in linear time', async () => {
  const archive = await craftedArchive([{ name: manifestPath, content: Buffer.alloc(128 * 1024 * 1024) }])
  await expect(readBack(archive)).rejects.toThrow('its manifest cannot be read')
})

test('a large file is written and read with little memory', async () => {
  const part = randomBytes(1024 * 1024)
  const parts = 200
  let bytesMax = 0
  const measure = () => {
    bytesMax = Math.max(bytesMax, process.memoryUsage().arrayBuffers)
  }
  const before = process.memoryUsage().arrayBuffers
  let bytes = 0
  const archive = writeArchive(async (writer) => {
    async function* content(): AsyncGenerator<Uint8Array> {
      for (let n = 0; n < parts; n++) yield part
    }
    await writer.file('large', parts * part.length, content())
    return info
  })
  await readArchive(
    archive,
    {
      async directory() {},
      async file(_path, body) {
        for await (const chunk of body) {
          bytes += chunk.length
          measure()
        }
      },
    },
    everything,
  )
  expect(bytes).toBe(parts * part.length)
  expect(bytesMax - before).toBeLessThan(60 * 1024 * 1024)
})

test('errors of the source and of the receiver are passed on, and not reported as damage', async () => {
  const archive = await archiveOf({ ...someFiles, large: randomBytes(3_000_000) })
  async function* failing(): AsyncGenerator<Uint8Array> {
    yield archive.subarray(0, archive.length >> 1)
    throw new Error('the disk failed')
  }
  const receiver = {
    async directory() {},
    async file(_path: string, body: AsyncIterable<Buffer>) {
      for await (const _part of body);
    },
  }
  await expect(readArchive(failing(), receiver, everything)).rejects.toThrow('the disk failed')
  const full = {
    ...receiver,
    async file() {
      throw new Error('the disk is full')
    },
  }
  await expect(readArchive(stream([archive]), full, everything)).rejects.toThrow('the disk is full')
})

test('an archive whose writer fails, fails its reader', async () => {
  const failing = async (archive: ArchiveWriter) => {
    await archive.file('base/1', 4, stream([Buffer.from('four')]))
    throw new Error('the source failed')
  }
  const parts = writeArchive(failing)
  await sleep(50)
  await expect(collect(parts)).rejects.toThrow('the source failed')
  const short = writeArchive(async (archive) => {
    await archive.file('base/1', 5, stream([Buffer.from('four')]))
    return info
  })
  await expect(collect(short)).rejects.toThrow('Size mismatch')
})

test('a writer starts with the first read, and has ended when its reader stops early', async () => {
  let stage = 'not started'
  const endless = () =>
    writeArchive(async (archive) => {
      stage = 'started'
      async function* content(): AsyncGenerator<Uint8Array> {
        for (;;) yield randomBytes(1_000_000)
      }
      try {
        await archive.file('endless', 1e12, content())
        return info
      } finally {
        await sleep(50)
        stage = 'ended'
      }
    })
  const archives = createDirectoryStore(import.meta.filename)
  await expect(archives.put('a', endless())).rejects.toThrow()
  await sleep(50)
  expect(stage).toBe('not started')
  for await (const _part of endless()) break
  expect(stage).toBe('ended')
})

test('no more is unpacked than allowed, however small the archive is', async () => {
  const archive = await archiveOf({ 'base/1': Buffer.alloc(40_000_000), 'base/2': Buffer.alloc(40_000_000) })
  expect(archive.length).toBeLessThan(20_000)
  await expect(readBack(archive, { bytesMax: 79_999_999 })).rejects.toThrow('beyond the storage limit')
  expect(Object.keys(await readBack(archive, { bytesMax: 80_000_000 }))).toHaveLength(2)
})
