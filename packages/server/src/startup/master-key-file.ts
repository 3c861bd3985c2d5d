import { randomBytes } from 'node:crypto'
import { link, open, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { leaveToHost } from '../store/embedded/host.ts'

/**
 * The master key of an embedded installation, made on first start. Written aside and linked into place: two processes
 * that start together agree on one key, and a crash in the middle never leaves half a key behind.
 */
export async function masterKeyFrom(dataDir: string): Promise<Buffer> {
  const path = join(dataDir, 'master.key')
  const existing = await read(path)
  if (existing !== null) return existing
  const draft = `${path}.${process.pid}`
  const file = await open(draft, 'w', 0o600)
  await file.writeFile(`${randomBytes(32).toString('base64')}\n`)
  await file.sync()
  await file.close()
  await leaveToHost(draft)
  await link(draft, path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  await rm(draft)
  return (await read(path))!
}

async function read(path: string): Promise<Buffer | null> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
  if (text === null) return null
  const key = Buffer.from(text.trim(), 'base64')
  if (key.length !== 32) {
    throw new Error(
      `${path} does not hold a master key (32 bytes, base64). Restore it from a backup: without it no webhook secret can be read.`,
    )
  }
  return key
}
