import { Readable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { constants, createZstdCompress } from 'node:zlib'

/**
 * Level 3 is zstd's own default; the checksum lets the far end notice a flipped bit before it unpacks rubbish.
 *
 * Nothing begins before the first part is asked for: a stream that fails while nobody listens ends the process. And it is
 * over only when its source is, with the session of the backup.
 */
export async function* compress(plain: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
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
