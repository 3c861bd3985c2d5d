import { createHash } from 'node:crypto'
import { DamagedArchive } from '../driver.ts'

/** An archive's bytes; at their end it is damaged unless they are, all together, what was written. */
export async function* asWritten(archive: AsyncIterable<Uint8Array>, sha256: string): AsyncGenerator<Uint8Array> {
  const hash = createHash('sha256')
  for await (const part of archive) {
    hash.update(part)
    yield part
  }
  if (hash.digest('hex') !== sha256) throw new DamagedArchive('it is not what was written')
}
