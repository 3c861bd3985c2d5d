import { createHash, randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { access, lchown, open, readdir, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { syncDirectory } from '../../embedded/data-directory.ts'
import { DirectoryUnusable, makeWay, unusable } from '../../embedded/make-way.ts'
import type { Account } from '../../embedded/reach.ts'
import { type BackupId, isId } from '../../kernel/ids.ts'
import { DamagedArchive } from '../driver.ts'
import type { ArchiveStore } from './archive-store.ts'

const suffix = '.tar.zst'

/** Archives as files of one directory, readable by nobody else; they belong to `owner` where root works for somebody else. */
export function createArchiveDirectory(path: string, owner?: Account): ArchiveStore {
  const place = (id: BackupId) => join(path, `${id}${suffix}`)

  return {
    async write(id, content) {
      await makeDirectory(path, owner)
      const draft = `${place(id)}.writing-${randomBytes(6).toString('hex')}`
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
        await rename(draft, place(id))
        await syncDirectory(path)
      } catch (error) {
        await rm(draft, { force: true })
        throw error
      }
      return { bytes, sha256: hash.digest('hex') }
    },
    async *read(id) {
      const file = await open(place(id), 'r').catch((error: NodeJS.ErrnoException) => {
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
 * Refuses a directory in which no archive can ever be kept, before anybody relies on it. A disk that is away or full may come
 * back, and until then it costs backups and restores and nothing else: that is answered, and not thrown.
 */
export async function checkArchiveDirectory(path: string, owner?: Account): Promise<{ problem: Error | null }> {
  try {
    await makeDirectory(path, owner)
    await access(path, constants.R_OK | constants.W_OK | constants.X_OK).catch((error: NodeJS.ErrnoException) => {
      throw unusable(chosen(path), `archives cannot be written and read there (${error.code})`, error)
    })
    return { problem: null }
  } catch (error) {
    const cause = error instanceof DirectoryUnusable ? (error.cause as NodeJS.ErrnoException | undefined) : undefined
    if (!passing.has(cause?.code ?? '')) throw error
    return { problem: error as Error }
  }
}

/** What the disk says of itself, and not of the setting that names it. */
const passing = new Set(['EIO', 'ESTALE', 'ENOTCONN', 'ENODEV', 'ENXIO', 'ETIMEDOUT', 'EHOSTDOWN', 'ENOSPC', 'EDQUOT'])

const chosen = (path: string) => ({ path: resolve(path), setting: 'KEYHOOK_ARCHIVES_DIR' })

async function makeDirectory(path: string, owner: Account | undefined): Promise<void> {
  const made = await makeWay(chosen(path), 0o700)
  if (owner && made) await lchown(path, owner.uid, owner.gid)
}

const namesIn = (path: string): Promise<string[]> =>
  readdir(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
