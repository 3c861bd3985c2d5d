import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { constants, createZstdCompress } from 'node:zlib'
import { type Pack, pack } from 'tar-stream'
import { encodeManifest, type Manifest, manifestPath } from './manifest.ts'

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
