import { constants } from 'node:fs'
import { access, readdir, realpath, stat } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import { isRoot } from './account.ts'
import { whyClosed } from './closed.ts'
import { DirectoryUnusable } from './make-way.ts'

/**
 * Root has every right, and gives PostgreSQL back its files where it starts it. An ordinary user cannot take back what root
 * has made or restored, and learns it here rather than from databases that do not come up.
 */
export async function checkBelongings(dataDir: string): Promise<void> {
  if (isRoot()) return
  for await (const path of belongingsIn(dataDir)) {
    if (!(await isUsable(path))) throw await notUsable(dataDir, path)
  }
}

/** What we keep there, each after what it lies in. Other things are no concern of ours, such as a disk's `lost+found`. */
async function* belongingsIn(dataDir: string): AsyncGenerator<string> {
  const names = [
    'id',
    'master.key',
    'master.key.id',
    'postgres',
    'postgres.password',
    'postgres.log',
    'databases',
    'archives',
  ]
  for (const name of names) yield join(dataDir, name)
  for (const name of await namesIn(join(dataDir, 'archives'))) {
    if (name.startsWith('bak_')) yield join(dataDir, 'archives', name)
  }
  for (const name of await namesIn(join(dataDir, 'databases'))) {
    const path = join(dataDir, 'databases', name)
    if (name.startsWith('template-')) yield path
    if (!name.startsWith('db_')) continue
    yield path
    for (const inner of ['cluster', 'port', 'postgres.log']) yield join(path, inner)
  }
}

const namesIn = (directory: string): Promise<string[]> => readdir(directory).catch(() => [])

async function isUsable(path: string): Promise<boolean> {
  try {
    // Most files are only read once they are there, and may well be kept from being written to.
    const { R_OK, W_OK, X_OK } = constants
    const more = (await stat(path)).isDirectory() ? W_OK | X_OK : path.endsWith('.log') ? W_OK : 0
    await access(path, R_OK | more)
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    // No matter whom it belongs to: nobody can write there.
    if (code === 'EROFS') throw error
    return code === 'ENOENT'
  }
}

async function notUsable(dataDir: string, path: string): Promise<DirectoryUnusable> {
  const { owner, ownMode } = await whyClosed(path)
  if (ownMode !== null) return new DirectoryUnusable(`${path} cannot be used, ${ownMode}.`)
  const us = process.getuid?.()
  // All that lies beside it is probably no different, and would be next.
  const top = join(dataDir, relative(dataDir, path).split(sep)[0]!)
  return new DirectoryUnusable(
    `${path} belongs to the user with id ${owner}, and Keyhook runs as the one with id ${us}: have it given back ` +
      `(as root: chown -R ${us}:${process.getgid?.()} ${await realpath(top)}), or run Keyhook as that user.`,
  )
}
