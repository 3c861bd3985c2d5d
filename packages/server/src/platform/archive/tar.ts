import { DamagedArchive } from '../driver.ts'

/*
 * POSIX ustar, so that an archive can be looked into, and in need restored by hand, with programs that everybody has:
 *   tar --zstd -xf bak_….tar.zst
 */
export const blockBytes = 512
export type Entry = { path: string; kind: 'file' | 'directory'; size: number }

const octal = (value: number, width: number): string => `${value.toString(8).padStart(width - 1, '0')}\0`

export function encodeHeader(entry: Entry): Buffer {
  const header = Buffer.alloc(blockBytes)
  const path = entry.kind === 'directory' ? `${entry.path}/` : entry.path
  if (Buffer.byteLength(path) > 100) throw new Error(`${path} is too long for an archive`)
  header.write(path, 0, 100, 'utf8')
  header.write(octal(entry.kind === 'directory' ? 0o700 : 0o600, 8), 100, 'latin1')
  header.write(octal(0, 8), 108, 'latin1')
  header.write(octal(0, 8), 116, 'latin1')
  header.write(octal(entry.size, 12), 124, 'latin1')
  header.write(octal(0, 12), 136, 'latin1')
  header.write('        ', 148, 'latin1')
  header.write(entry.kind === 'directory' ? '5' : '0', 156, 'latin1')
  header.write('ustar\x0000', 257, 'latin1')
  header.write(`${octal(checksum(header), 7)} `, 148, 'latin1')
  return header
}

const checksum = (header: Buffer): number => header.reduce((sum, byte) => sum + byte, 0)

/** Null for a block of zeros, which ends an archive. */
export function decodeHeader(header: Buffer): Entry | null {
  if (header.every((byte) => byte === 0)) return null
  const stored = Number.parseInt(header.toString('latin1', 148, 156), 8)
  const bare = Buffer.from(header)
  bare.write('        ', 148, 'latin1')
  if (header.toString('latin1', 257, 262) !== 'ustar' || stored !== checksum(bare)) {
    throw new DamagedArchive('an entry has no readable header')
  }
  const path = header.toString('utf8', 0, 100).replace(/\0.*$/s, '')
  const kind = header.toString('latin1', 156, 157) === '5' ? 'directory' : 'file'
  const size = Number.parseInt(header.toString('latin1', 124, 136), 8)
  if (!Number.isSafeInteger(size) || size < 0) throw new DamagedArchive('an entry has no size')
  return { path: path.replace(/\/$/, ''), kind, size }
}

export const paddingAfter = (size: number): Buffer => Buffer.alloc((blockBytes - (size % blockBytes)) % blockBytes)
export const endOfArchive = (): Buffer => Buffer.alloc(blockBytes * 2)
