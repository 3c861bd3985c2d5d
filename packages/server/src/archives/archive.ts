import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib'
import { extract, type Header, type Pack, pack } from 'tar-stream'
import { DamagedArchive, tooLarge } from '../lib/step-failure.ts'
import { decodeManifest, encodeManifest, type Manifest, manifestPath } from './archive-store.ts'

const manifestBytesMax = 256 * 1024 * 1024

/** A manifest of that size lists fewer. */
const entriesMax = 4_000_000

/** Gets every entry as it is read. Nothing is verified before `readArchive` has returned. */
export type Receiver = {
  directory(path: string): Promise<void>
  file(path: string, body: AsyncIterable<Buffer>): Promise<void>
}

type FoundFile = { bytes: number; sha256: string }

/**
 * Reads an archive to its end and compares every file with the manifest.
 * Any difference throws `DamagedArchive`, and more than `bytesMax` in files `tooLarge`: a small archive can become any number of bytes.
 * Errors of the source and of the receiver are passed on as they are.
 */
export async function readArchive(
  archive: AsyncIterable<Uint8Array>,
  receiver: Receiver,
  { bytesMax }: { bytesMax: number },
): Promise<Manifest> {
  const found = new Map<string, FoundFile>()
  let manifest: Manifest | null = null
  let entries = 0
  let bytes = 0
  for await (const { path, type, size, body } of entriesOf(archive)) {
    entries += 1
    if (entries > entriesMax) throw new DamagedArchive('it has too many entries')
    if (manifest !== null) throw new DamagedArchive('something follows the manifest')
    if (!isInside(path)) throw new DamagedArchive('an entry points outside')
    if (type === 'directory' && size === 0) await receiver.directory(path)
    else if (type !== 'file') throw new DamagedArchive('an entry is neither a file nor a directory')
    else if (path === manifestPath) manifest = await readManifest(size, body)
    else {
      bytes += size
      if (bytes > bytesMax) throw tooLarge(bytesMax)
      found.set(path, await readFile(path, body, receiver))
    }
  }
  if (manifest === null) throw new DamagedArchive('it has no manifest')
  compare(manifest, found)
  return manifest
}

type ArchiveEntry = { path: string; type: Header['type']; size: number; body: AsyncIterable<Buffer> }

async function* entriesOf(archive: AsyncIterable<Uint8Array>): AsyncGenerator<ArchiveEntry> {
  const source = Readable.from(archive, { objectMode: false })
  const plain = createZstdDecompress()
  const entries = extract()
  let sourceError: unknown
  source.on('error', (error) => {
    sourceError = error
    plain.destroy(error)
  })
  plain.on('error', (error) => entries.destroy(error))
  source.pipe(plain).pipe(entries)
  // What neither the source nor we have thrown comes from zstd or tar, which could not read the bytes.
  const explain = (error: unknown) =>
    error === sourceError || error instanceof DamagedArchive
      ? error
      : new DamagedArchive('it cannot be unpacked', error)

  async function* bodyOf(entry: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    try {
      yield* entry
    } catch (error) {
      throw explain(error)
    }
  }
  try {
    for await (const entry of entries) {
      const { name, type, size } = entry.header
      const path = type === 'directory' ? name.replace(/\/$/, '') : name
      yield { path, type, size, body: bodyOf(entry as AsyncIterable<Buffer>) }
    }
  } catch (error) {
    throw explain(error)
  } finally {
    source.destroy()
    plain.destroy()
  }
}

/** An archive may come from anywhere: no entry may be written outside of the directory that it is unpacked into. */
const isInside = (path: string): boolean =>
  !path.includes('\0') && !path.split('/').some((part) => part === '..' || part === '' || part === '.')

async function readManifest(size: number, body: AsyncIterable<Buffer>): Promise<Manifest> {
  if (size > manifestBytesMax) throw new DamagedArchive('its manifest is too large')
  const parts: Buffer[] = []
  for await (const part of body) parts.push(part)
  const manifest = decodeManifest(Buffer.concat(parts).toString('utf8'))
  if (manifest === null) throw new DamagedArchive('its manifest cannot be read')
  return manifest
}

async function readFile(path: string, body: AsyncIterable<Buffer>, receiver: Receiver): Promise<FoundFile> {
  const hash = createHash('sha256')
  let bytes = 0
  async function* counted(): AsyncGenerator<Buffer> {
    for await (const part of body) {
      hash.update(part)
      bytes += part.length
      yield part
    }
  }
  await receiver.file(path, counted())
  return { bytes, sha256: hash.digest('hex') }
}

function compare(manifest: Manifest, found: Map<string, FoundFile>): void {
  for (const file of manifest.files) {
    const actual = found.get(file.path)
    if (actual === undefined) throw new DamagedArchive(`${file.path} is missing`)
    if (actual.bytes !== file.bytes || actual.sha256 !== file.sha256) throw new DamagedArchive(`${file.path} differs`)
  }
  if (found.size !== manifest.files.length)
    throw new DamagedArchive('it contains files that its manifest does not list')
}

export type ArchiveWriter = {
  directory(path: string): Promise<void>
  /** The content has to be exactly `bytes` long. */
  file(path: string, bytes: number, content: AsyncIterable<Uint8Array>): Promise<void>
}

/** The manifest without its list of files. */
export type ArchiveInfo = Omit<Manifest, 'format' | 'files'>

/**
 * The bytes of a `.tar.zst` with a manifest as its last entry. `tar --zstd -xf` can unpack it.
 * `fill` starts with the first read. It has ended when the stream has, also if the reader stops early.
 */
export const writeArchive = (fill: (archive: ArchiveWriter) => Promise<ArchiveInfo>): AsyncGenerator<Uint8Array> =>
  compress(writeTar(fill))

async function* writeTar(fill: (archive: ArchiveWriter) => Promise<ArchiveInfo>): AsyncGenerator<Uint8Array> {
  const tar = pack()
  const filling = fillTar(tar, fill).then(
    () => tar.finalize(),
    (error: Error) => void tar.destroy(error),
  )
  try {
    yield* tar as AsyncIterable<Uint8Array>
  } finally {
    tar.destroy()
    await filling
  }
}

async function fillTar(tar: Pack, fill: (archive: ArchiveWriter) => Promise<ArchiveInfo>): Promise<void> {
  const files: Manifest['files'] = []
  const info = await fill({
    directory: (path) => addEntry(tar, { name: path, type: 'directory', mode: 0o700 }),
    async file(path, bytes, content) {
      const hash = createHash('sha256')
      await addEntry(tar, { name: path, mode: 0o600, size: bytes }, hashed(content, hash))
      files.push({ path, bytes, sha256: hash.digest('hex') })
    },
  })
  const manifest = encodeManifest({ format: 1, ...info, files })
  await addEntry(tar, { name: manifestPath, mode: 0o600, size: manifest.length }, [manifest])
}

async function* hashed(content: AsyncIterable<Uint8Array>, hash: ReturnType<typeof createHash>) {
  for await (const part of content) {
    hash.update(part)
    yield part
  }
}

async function addEntry(
  tar: Pack,
  header: { name: string; type?: 'directory'; mode: number; size?: number },
  content: AsyncIterable<Uint8Array> | Iterable<Uint8Array> = [],
): Promise<void> {
  const done = Promise.withResolvers<void>()
  done.promise.catch(() => {})
  const entry = tar.entry({ ...header, mtime: new Date(0) }, (error) => (error ? done.reject(error) : done.resolve()))
  // The callback reports the same error.
  entry.on('error', () => {})
  for await (const part of content) {
    if (!entry.write(part)) await Promise.race([once(entry, 'drain'), done.promise])
  }
  entry.end(null)
  await done.promise
}

/** Level 3 is zstd's default. The frame checksum finds a flipped bit before the tar reader sees it. */
async function* compress(plain: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const source = Readable.from(plain, { objectMode: false })
  const packed = createZstdCompress({
    params: { [constants.ZSTD_c_compressionLevel]: 3, [constants.ZSTD_c_checksumFlag]: 1 },
  })
  source.on('error', (error) => packed.destroy(error))
  try {
    yield* source.pipe(packed)
  } finally {
    packed.destroy()
    source.destroy()
    await finished(source).catch(() => {})
  }
}
