import { createHash, randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { access, lchown, open, readdir, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { syncDirectory } from '../../embedded/data-directory.ts'
import { DirectoryUnusable, ensureDirectory, unusable } from '../../embedded/ensure-directory.ts'
import type { Account } from '../../embedded/permissions.ts'
import { type BackupId, isId } from '../../kernel/ids.ts'
import { DamagedArchive } from '../driver.ts'
import type { ArchiveStore } from './archive-store.ts'

const suffix = '.tar.zst'

/** Archives as files of one directory with mode 0600. Root gives them to `owner`. */
export function createArchiveDirectory(path: string, owner?: Account): ArchiveStore {
  const pathOf = (id: BackupId) => join(path, `${id}${suffix}`)

  return {
    async write(id, content) {
      await prepareDirectory(path, owner)
      const draft = `${pathOf(id)}.writing-${randomBytes(6).toString('hex')}`
      const file = await open(draft, 'wx', 0o600)
      const hash = createHash('sha256')
      let bytes = 0
      try {
        try {
          if (owner) await file.chown(owner.uid, owner.gid)
          for await (const part of content) {
            hash.update(part)
            bytes += part.length
            await file.writeFile(part)
          }
          await file.sync()
        } finally {
          await file.close()
        }
        await rename(draft, pathOf(id))
        await syncDirectory(path)
      } catch (error) {
        await rm(draft, { force: true })
        throw error
      }
      return { bytes, sha256: hash.digest('hex') }
    },
    async *read(id) {
      const file = await open(pathOf(id), 'r').catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') throw new DamagedArchive('it is missing', error)
        throw error
      })
      // The stream closes the file, also when the reader stops early.
      yield* file.createReadStream({ highWaterMark: 256 * 1024 })
    },
    async remove(id) {
      for (const name of await namesIn(path)) {
        if (name.startsWith(`${id}.`)) await rm(join(path, name), { force: true })
      }
    },
    async existing() {
      const ids = (await namesIn(path)).map((name) => name.split('.')[0]!)
      return [...new Set(ids)].filter((id) => isId('bak', id))
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

const namesIn = (path: string): Promise<string[]> =>
  readdir(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
