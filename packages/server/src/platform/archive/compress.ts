import { Readable } from 'node:stream'
import { constants, createZstdCompress } from 'node:zlib'

/** Level 3 is zstd's own default; the checksum lets the far end notice a flipped bit before it unpacks rubbish. */
export function compress(plain: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  const source = Readable.from(plain, { objectMode: false })
  const packed = createZstdCompress({
    params: { [constants.ZSTD_c_compressionLevel]: 3, [constants.ZSTD_c_checksumFlag]: 1 },
  })
  source.on('error', (error) => packed.destroy(error))
  // A reader that stops early ends the source as well, and with it the session of the backup.
  packed.on('close', () => source.destroy())
  return source.pipe(packed)
}
