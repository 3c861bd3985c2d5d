import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { access, lchown, mkdir, open, readdir, readFile, rename, rm, rmdir, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve } from 'node:path'
import type { Account } from '../postgres/account.ts'
import { syncDirectory } from '../postgres/data-directory.ts'
import { DirectoryUnusable, ensureDirectory, unusable } from '../postgres/ownership.ts'
import { type ArchiveStore, checkName, MissingObject } from './archive-store.ts'

/** `<name>.writing-<random>` while it is written. */
const draftPattern = /\.writing-[0-9a-f]+$/

/** Objects as files below one directory with mode 0600. Root gives them to `owner`. */
export function createDirectoryStore(path: string, owner?: Account): ArchiveStore {
  const pathOf = (name: string): string => {
    checkName(name)
    return join(path, name)
  }

  return {
    async put(name, content, { signal } = {}) {
      const target = pathOf(name)
      await prepareDirectory(path, owner)
      await removeDrafts(target)
      const { file, draft } = await openDraft(path, target, owner)
      const hash = createHash('sha256')
      let bytes = 0
      try {
        try {
          if (owner) await file.chown(owner.uid, owner.gid)
          for await (const part of content) {
            signal?.throwIfAborted()
            hash.update(part)
            bytes += part.length
            await file.writeFile(part)
          }
          await file.sync()
        } finally {
          await file.close()
        }
        await rename(draft, target)
        await syncDirectory(dirname(target))
      } catch (error) {
        await rm(draft, { force: true })
        await removeEmptyParents(path, target)
        throw error
      }
      return { bytes, sha256: hash.digest('hex') }
    },
    async *get(name, { signal } = {}) {
      const file = await open(pathOf(name), 'r').catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') throw new MissingObject(name, { cause: error })
        throw error
      })
      // The stream closes the file, also when the reader stops early.
      yield* file.createReadStream({ highWaterMark: 256 * 1024, ...(signal && { signal }) })
    },
    async head(name) {
      const found = await stat(pathOf(name)).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return null
        throw error
      })
      return found === null ? null : { bytes: found.size }
    },
    async *list(prefix) {
      for (const name of await namesBelow(path, prefix)) {
        if (draftPattern.test(name)) continue
        const found = await stat(join(path, name)).catch(() => null)
        if (found !== null) yield { name, bytes: found.size }
      }
    },
    async *unfinished(prefix) {
      const drafts = (await namesBelow(path, prefix)).filter((name) => draftPattern.test(name))
      yield* new Set(drafts.map((name) => name.replace(draftPattern, '')))
    },
    async remove(name) {
      const target = pathOf(name)
      await rm(target, { force: true })
      await removeDrafts(target)
      await removeEmptyParents(path, target)
    },
  }
}

/**
 * Throws if the directory can never store an archive. A disk that is missing or full is returned as a problem and not thrown,
 * because it may come back, and databases run without it.
 */
export async function checkArchiveDirectory(path: string, owner?: Account): Promise<{ problem: Error | null }> {
  try {
    await prepareDirectory(path, owner)
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK).catch((error: NodeJS.ErrnoException) => {
      throw unusable(configured(path), `archives cannot be written and read there (${error.code})`, error)
    })
    return { problem: null }
  } catch (error) {
    const cause = error instanceof DirectoryUnusable ? (error.cause as NodeJS.ErrnoException | undefined) : undefined
    if (!temporary.has(cause?.code ?? '')) throw error
    return { problem: error as Error }
  }
}

/** Errors of the disk, and not of the setting that names it. */
const temporary = new Set([
  'EIO',
  'ESTALE',
  'ENOTCONN',
  'ENODEV',
  'ENXIO',
  'ETIMEDOUT',
  'EHOSTDOWN',
  'ENOSPC',
  'EDQUOT',
])

const configured = (path: string) => ({ path: resolve(path), setting: 'KEYHOOK_ARCHIVES_DIR' })

async function prepareDirectory(path: string, owner: Account | undefined): Promise<void> {
  const created = await ensureDirectory(configured(path), 0o700)
  if (owner && created) await lchown(path, owner.uid, owner.gid)
}

/** A `remove` in the same directory may have just removed it, because it was empty. */
async function openDraft(root: string, target: string, owner: Account | undefined) {
  for (let attempt = 1; ; attempt++) {
    await ensureParents(root, target, owner)
    const draft = `${target}.writing-${randomBytes(6).toString('hex')}`
    try {
      return { file: await open(draft, 'wx', 0o600), draft }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || attempt === 5) throw error
    }
  }
}

async function ensureParents(root: string, target: string, owner: Account | undefined): Promise<void> {
  let path = root
  for (const part of relative(root, dirname(target)).split('/').filter(Boolean)) {
    path = join(path, part)
    try {
      await mkdir(path, { mode: 0o700 })
      if (owner) await lchown(path, owner.uid, owner.gid)
      await syncDirectory(dirname(path))
    } catch (error) {
      if (!['EEXIST', 'ENOENT'].includes((error as NodeJS.ErrnoException).code!)) throw error
    }
  }
}

async function removeEmptyParents(root: string, target: string): Promise<void> {
  for (let path = dirname(target); relative(root, path) !== ''; path = dirname(path)) {
    try {
      await rmdir(path)
    } catch {
      return
    }
  }
}

async function removeDrafts(target: string): Promise<void> {
  const start = `${basename(target)}.writing-`
  for (const name of await namesIn(dirname(target))) {
    if (name.startsWith(start)) await rm(join(dirname(target), name), { force: true })
  }
}

/** Every file below `path` whose name starts with the prefix, drafts too, sorted. */
async function namesBelow(path: string, prefix: string): Promise<string[]> {
  const start = prefix.slice(0, prefix.lastIndexOf('/') + 1)
  const names: string[] = []
  const walk = async (directory: string): Promise<void> => {
    for (const entry of await entriesIn(join(path, directory))) {
      const name = `${directory}${entry.name}`
      if (entry.isDirectory()) await walk(`${name}/`)
      else if (entry.isFile() && name.startsWith(prefix)) names.push(name)
    }
  }
  await walk(start)
  return names.sort()
}

const entriesIn = (path: string) => readdir(path, { withFileTypes: true }).catch(missingIsEmpty)
const namesIn = (path: string): Promise<string[]> => readdir(path).catch(missingIsEmpty)

function missingIsEmpty(error: NodeJS.ErrnoException): [] {
  if (error.code === 'ENOENT') return []
  throw error
}

/** A random name in a file of the directory: two nodes that read the same one share the directory. */
export async function directoryIdentity(path: string): Promise<string> {
  const file = join(path, 'store-id')
  await mkdir(path, { recursive: true })
  await writeFile(file, `${randomUUID()}\n`, { flag: 'wx', mode: 0o644 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  return (await readFile(file, 'utf8')).trim()
}
