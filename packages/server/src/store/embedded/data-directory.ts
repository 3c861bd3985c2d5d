import { createHash, randomBytes } from 'node:crypto'
import { chmod, link, lstat, mkdir, open, readdir, readFile, realpath, rename, rm, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { isRoot } from './account.ts'
import { leaveToHost } from './host.ts'
import { wayTo } from './reach.ts'

const enterable = 0o711
const closed = 0o700

/** Nothing can be kept there. The text is for the operator who chose the directory. */
export class DataDirectoryUnusable extends Error {
  override readonly name = 'DataDirectoryUnusable'
}

/**
 * Makes the directory if need be and answers its real path. Root leaves it enterable, because the cluster inside belongs
 * to another account; each secret inside is 0600 in its own right.
 */
export async function prepareDataDirectory(path: string): Promise<string> {
  const wanted = resolve(path)
  const made = await makeWay(wanted, isRoot() ? enterable : closed)
  const dataDir = await realpath(wanted)
  // A directory with other things in it keeps its mode: somebody may have pointed us at a home directory.
  if (!made && isRoot() && (await isOurs(dataDir))) {
    const current = (await stat(dataDir)).mode & 0o777
    if ((current & 0o111) !== 0o111) await chmod(dataDir, current | 0o111)
  }
  return dataDir
}

/**
 * Every directory on the way that is missing. Not by mkdir's own `recursive`: where a file system answers ENOENT to a new
 * directory, as /proc does, Node tries again for ever.
 */
async function makeWay(wanted: string, mode: number): Promise<boolean> {
  let made = false
  for (const step of wayTo(wanted)) {
    if (await isDirectory(step, wanted)) continue
    try {
      await mkdir(step)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      // Another process that starts at the same moment was faster.
      if (code === 'EEXIST' && (await isDirectory(step, wanted))) continue
      throw unusable(wanted, `${step} cannot be made (${code})`, error)
    }
    // In its own right, because mkdir subtracts the umask; under 077 the account of PostgreSQL could not get in.
    await chmod(step, mode)
    made = true
  }
  return made
}

async function isDirectory(path: string, wanted: string): Promise<boolean> {
  try {
    if ((await stat(path)).isDirectory()) return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return false
    throw unusable(wanted, `${path} cannot be looked at (${code})`, error)
  }
  throw unusable(wanted, `${path} is no directory`)
}

const unusable = (dataDir: string, why: string, cause?: unknown): DataDirectoryUnusable =>
  new DataDirectoryUnusable(`KEYHOOK_DATA_DIR: "${dataDir}" cannot be used: ${why}.`, { cause })

async function isOurs(dataDir: string): Promise<boolean> {
  const entries = await readdir(dataDir)
  return (entries.length === 0 || entries.includes('id')) && (await stat(dataDir)).uid === 0
}

/** Names this data directory for as long as it exists. Two processes that ask at once get the same answer. */
export async function directoryId(dataDir: string): Promise<string> {
  const path = join(dataDir, 'id')
  const existing = await readSecret(path)
  if (existing !== undefined) return existing
  const draft = await writeDraft(path, randomBytes(24).toString('hex')).catch((error: NodeJS.ErrnoException) => {
    throw unusable(dataDir, `nothing can be written there (${error.code})`, error)
  })
  try {
    // A hard link, unlike a rename, does not replace the id that another process has just begun to use.
    await link(draft, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    await rm(draft, { force: true })
  }
  return (await readFile(path, 'utf8')).trim()
}

/** One-way, so that a name that others can see does not give away the id or another name. */
export const nameFrom = (id: string, purpose: string): string =>
  createHash('sha256').update(`keyhook ${purpose}\0${id}`).digest('hex').slice(0, 24)

export async function readSecret(path: string): Promise<string | undefined> {
  try {
    return (await readFile(path, 'utf8')).trim()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    if (code !== 'EACCES') throw error
    const owner = await lstat(path).catch(() => lstat(dirname(path)))
    const help = `it belongs to the user with id ${owner.uid}: run Keyhook as that user, or give it another data directory`
    throw new DataDirectoryUnusable(`${path} cannot be read, ${help}.`, { cause: error })
  }
}

export async function writeSecret(path: string, secret: string): Promise<void> {
  await rename(await writeDraft(path, secret), path)
  await syncDirectory(dirname(path))
}

async function writeDraft(path: string, secret: string): Promise<string> {
  const draft = `${path}.${randomBytes(6).toString('hex')}`
  const file = await open(draft, 'wx', 0o600)
  try {
    await file.writeFile(`${secret}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
  await leaveToHost(draft)
  return draft
}

/** A rename survives a power cut only once its directory is on disk. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r')
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}
