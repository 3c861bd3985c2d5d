import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { createZstdDecompress } from 'node:zlib'
import { DamagedArchive } from '../driver.ts'
import { decodeManifest, type Manifest, manifestPath } from './manifest.ts'
import { blockBytes, decodeHeader, type Entry } from './tar.ts'

const manifestBytesMax = 256 * 1024 * 1024

/** Gets every entry as it comes. Nothing it was given counts until `readArchive` has returned. */
export type Receiver = {
  directory(path: string): Promise<void>
  file(path: string, body: AsyncIterable<Buffer>): Promise<void>
}

/**
 * Reads an archive to its end and holds every file against the manifest. Any difference, a missing end or a file that
 * the manifest does not name is damage.
 */
export async function readArchive(archive: AsyncIterable<Uint8Array>, receiver: Receiver): Promise<Manifest> {
  const source = Readable.from(archive, { objectMode: false })
  const plain = createZstdDecompress()
  source.on('error', (error) => plain.destroy(error))
  source.pipe(plain)
  try {
    return await readEntries(createTaker(plain), receiver)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (/^(ZSTD_|Z_|ERR_ZSTD|ERR_ZLIB|ERR__ERROR)/.test(code ?? ''))
      throw new DamagedArchive('it cannot be unpacked', error)
    throw error
  } finally {
    source.destroy()
    plain.destroy()
  }
}

async function readEntries(taker: Taker, receiver: Receiver): Promise<Manifest> {
  const found = new Map<string, { bytes: number; sha256: string }>()
  let manifest: Manifest | null = null
  for (;;) {
    const entry = decodeHeader(await taker.take(blockBytes))
    if (entry === null) break
    if (manifest !== null) throw new DamagedArchive('something follows the manifest')
    if (!isSafe(entry.path)) throw new DamagedArchive('an entry points outside')
    if (entry.kind === 'directory') await receiver.directory(entry.path)
    else if (entry.path === manifestPath) manifest = await readManifest(taker, entry)
    else found.set(entry.path, await readFile(taker, entry, receiver))
  }
  if (manifest === null) throw new DamagedArchive('it has no manifest')
  compare(manifest, found)
  await taker.drain()
  return manifest
}

/** The archive may have been in strange hands: no entry may reach outside the directory that it is unpacked into. */
const isSafe = (path: string): boolean =>
  path !== '' && !path.startsWith('/') && !path.split('/').some((part) => part === '..' || part === '' || part === '.')

async function readManifest(taker: Taker, { size }: Entry): Promise<Manifest> {
  if (size > manifestBytesMax) throw new DamagedArchive('its manifest is too large')
  const manifest = decodeManifest((await taker.take(size)).toString('utf8'))
  await taker.pad(size)
  if (manifest === null) throw new DamagedArchive('its manifest cannot be read')
  return manifest
}

async function readFile(taker: Taker, { path, size }: Entry, receiver: Receiver) {
  const hash = createHash('sha256')
  let left = size
  async function* body(): AsyncGenerator<Buffer> {
    while (left > 0) {
      const part = await taker.some(left)
      left -= part.length
      hash.update(part)
      yield part
    }
  }
  await receiver.file(path, body())
  if (left > 0) throw new Error('the receiver did not read the whole file')
  await taker.pad(size)
  return { bytes: size, sha256: hash.digest('hex') }
}

function compare(manifest: Manifest, found: Map<string, { bytes: number; sha256: string }>): void {
  for (const file of manifest.files) {
    const actual = found.get(file.path)
    if (actual === undefined) throw new DamagedArchive(`${file.path} is missing`)
    if (actual.bytes !== file.bytes || actual.sha256 !== file.sha256) throw new DamagedArchive(`${file.path} differs`)
  }
  if (found.size !== manifest.files.length) throw new DamagedArchive('it holds files that it does not name')
}

type Taker = {
  take(bytes: number): Promise<Buffer>
  some(bytesMax: number): Promise<Buffer>
  pad(size: number): Promise<void>
  drain(): Promise<void>
}

/** A stream's chunks, cut the way the reader wants them. */
function createTaker(stream: AsyncIterable<Buffer>): Taker {
  const chunks = stream[Symbol.asyncIterator]()
  let held: Buffer = Buffer.alloc(0)
  async function more(): Promise<Buffer> {
    const next = await chunks.next()
    if (next.done) throw new DamagedArchive('it ends too early')
    return next.value
  }
  function cut(bytes: number): Buffer {
    const part = held.subarray(0, bytes)
    held = held.subarray(bytes)
    return part
  }
  return {
    async take(bytes) {
      // Joined once: with every chunk again, a large manifest would be copied thousands of times, and nobody else served.
      const parts = [held]
      for (let have = held.length; have < bytes; have += parts.at(-1)!.length) parts.push(await more())
      if (parts.length > 1) held = Buffer.concat(parts)
      return cut(bytes)
    },
    async some(bytesMax) {
      if (held.length === 0) held = await more()
      return cut(Math.min(bytesMax, held.length))
    },
    async pad(size) {
      const rest = size % blockBytes
      if (rest > 0) await this.take(blockBytes - rest)
    },
    /** To the very end, so that the last checksum of the compression is seen too. */
    async drain() {
      while (!(await chunks.next()).done);
    },
  }
}
