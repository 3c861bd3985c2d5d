import { createHash, randomBytes } from 'node:crypto'
import { rmSync, writeFileSync } from 'node:fs'
import { chmod, link, open, readdir, readFile, realpath, rename, rm, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { isRoot, whyInaccessible } from './account.ts'
import { clustersHome } from './binaries.ts'
import {
  type ConfiguredDirectory,
  DirectoryUnusable,
  ensureDirectory,
  giveToDirectoryOwner,
  unusable,
} from './ownership.ts'

const enterable = 0o711
const closed = 0o700

const configured = (path: string): ConfiguredDirectory => ({ path, setting: 'KEYHOOK_DATA_DIR' })

/**
 * Creates the directory if necessary and returns its real path. Root leaves it enterable, because the cluster inside belongs
 * to another account; each secret inside has mode 0600.
 */
export async function prepareDataDirectory(path: string): Promise<string> {
  const wanted = resolve(path)
  const created = await ensureDirectory(configured(wanted), isRoot() ? enterable : closed)
  const dataDir = await realpath(wanted)
  // A directory with other things in it keeps its mode: it may be a home directory.
  if (!created && isRoot() && (await isOurs(dataDir))) {
    const current = (await stat(dataDir)).mode & 0o777
    if ((current & 0o111) !== 0o111) await chmod(dataDir, current | 0o111)
  }
  return dataDir
}

async function isOurs(dataDir: string): Promise<boolean> {
  const entries = await readdir(dataDir)
  return (entries.length === 0 || entries.includes('id')) && (await stat(dataDir)).uid === 0
}

/** A random id that the directory keeps. Two processes that ask at the same time get the same answer. */
export async function directoryId(dataDir: string): Promise<string> {
  const path = join(dataDir, 'id')
  const existing = await readSecret(path)
  if (existing !== undefined) return existing
  await writeSecretOnce(path, randomBytes(24).toString('hex')).catch((error: NodeJS.ErrnoException) => {
    throw unusable(
      configured(dataDir),
      `nothing can be written there (${error.code}). Let this user write there, or set KEYHOOK_DATA_DIR to another directory`,
      error,
    )
  })
  return (await readFile(path, 'utf8')).trim()
}

/** A one-way hash, so that a public name does not reveal the id or another name. */
export const nameFrom = (id: string, purpose: string): string =>
  createHash('sha256').update(`keyhook ${purpose}\0${id}`).digest('hex').slice(0, 24)

/** The address of the server on the directory. In a file, because only its owner can write it; that of a killed server stays. */
const addressPath = (dataDir: string): string => join(dataDir, 'server.address')
export const writeServerAddress = (dataDir: string, url: string): void =>
  writeFileSync(addressPath(dataDir), url, { mode: 0o600 })
export const removeServerAddress = (dataDir: string): void => rmSync(addressPath(dataDir), { force: true })
export const readServerAddress = (dataDir: string): Promise<string | undefined> => readSecret(addressPath(dataDir))

/** Of the superuser of our own cluster. */
export const passwordPath = (dataDir: string): string => join(dataDir, 'postgres.password')

export async function readSecret(path: string): Promise<string | undefined> {
  try {
    return (await readFile(path, 'utf8')).trim()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    if (code !== 'EACCES') throw error
    const { owner, modeProblem } = await whyInaccessible(path)
    const help = `it belongs to the user with id ${owner}: run Keyhook as that user, or give it another data directory`
    throw new DirectoryUnusable(`${path} cannot be read: ${modeProblem ?? help}.`, { cause: error })
  }
}

export async function writeSecret(path: string, secret: string): Promise<void> {
  await rename(await writeDraft(path, secret), path)
  await syncDirectory(dirname(path))
}

/** Keeps a file that exists: of two processes that write at once the first wins, and a crash never leaves half a file. */
export async function writeSecretOnce(path: string, secret: string): Promise<void> {
  const draft = await writeDraft(path, secret)
  try {
    // A hard link, unlike a rename, does not replace a file that another process already uses.
    await link(draft, path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    await rm(draft, { force: true })
  }
  await syncDirectory(dirname(path))
}

/** Under a random name, where the owner of the directory cannot have placed a link for root to follow. */
async function writeDraft(path: string, secret: string): Promise<string> {
  const draft = `${path}.${randomBytes(6).toString('hex')}`
  const file = await open(draft, 'wx', 0o600)
  try {
    await file.writeFile(`${secret}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
  await giveToDirectoryOwner(draft)
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

/** An initdb that was just ended may still write for a short time. */
const remove = (path: string): Promise<void> => rm(path, { recursive: true, force: true, maxRetries: 10 })

/** Removes a data directory, and its clusters where root had to place them elsewhere. */
export async function removeDataDirectory(dataDir: string): Promise<void> {
  for (const name of ['postgres', 'databases']) {
    const place = await realpath(join(dataDir, name)).catch(() => undefined)
    if (place !== undefined) await remove(place)
  }
  // What an interrupted start left has no link yet: only the name tells whose it is.
  const id = await readSecret(join(dataDir, 'id'))
  const ours = id === undefined ? [] : ['cluster', 'databases'].map((purpose) => nameFrom(id, purpose))
  for (const name of await readdir(clustersHome).catch(() => [])) {
    if (ours.some((one) => name === one || name.startsWith(`${one}.`))) await remove(join(clustersHome, name))
  }
  await remove(dataDir)
}
