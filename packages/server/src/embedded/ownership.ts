import { constants } from 'node:fs'
import { access, lchown, lstat, open, readdir, realpath, stat } from 'node:fs/promises'
import { dirname, join, relative, sep } from 'node:path'
import { isRoot } from './account.ts'
import { DirectoryUnusable } from './ensure-directory.ts'
import { type Account, whyInaccessible } from './permissions.ts'
import { runTool } from './tool.ts'

/** The owner of a directory that root works in; undefined if that is root, and for everyone who is not root. */
export async function foreignOwnerOf(directory: string): Promise<Account | undefined> {
  if (!isRoot()) return undefined
  const { uid, gid } = await stat(directory)
  return uid === 0 ? undefined : { uid, gid }
}

/** Gives what root creates in a user's directory to that user, who may be the next to start Keyhook there. */
export async function giveToDirectoryOwner(path: string): Promise<void> {
  const owner = await foreignOwnerOf(dirname(path))
  // lchown: the user may have replaced the file by a link to something of root's.
  if (owner !== undefined) await lchown(path, owner.uid, owner.gid)
}

/**
 * Gives a cluster to the account that runs it: PostgreSQL rejects one that root restored with a plain copy. With the system's
 * `chown`, which follows no links, also not of a directory that is swapped meanwhile. The cluster itself comes last: the next
 * start takes its owner as the sign that the work was finished.
 */
export async function giveClusterTo(account: Account, cluster: string): Promise<void> {
  const found = await lstat(cluster)
  if (!found.isDirectory() || (found.uid === account.uid && found.gid === account.gid)) return
  const directory = await open(cluster, constants.O_DIRECTORY | constants.O_NOFOLLOW)
  try {
    await directory.chmod(0o700)
  } finally {
    await directory.close()
  }
  await runTool('chown', ['-R', '-h', `${account.uid}:${account.gid}`, '--', cluster], { account: undefined })
}

/**
 * Checks that an ordinary user can use every file of the data directory, so that a wrong owner is reported at the start
 * and not by databases that do not come up. Root can change owners itself.
 */
export async function checkOwnership(dataDir: string): Promise<void> {
  if (isRoot()) return
  for await (const path of filesOf(dataDir)) {
    if (!(await isUsable(path))) throw await notUsable(dataDir, path)
  }
}

/** Our own files, parents first. Other things in the directory are ignored, such as a disk's `lost+found`. */
async function* filesOf(dataDir: string): AsyncGenerator<string> {
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
    const path = join(dataDir, 'archives', name)
    if (name.startsWith('bak_')) yield path
    if (name !== 'backups' && name !== 'wal') continue
    yield path
    for (const inner of await namesIn(path)) yield join(path, inner)
  }
  for (const name of await namesIn(join(dataDir, 'databases'))) {
    const path = join(dataDir, 'databases', name)
    if (name.startsWith('spare-')) yield path
    if (!name.startsWith('db_')) continue
    yield path
    for (const inner of ['cluster', 'port', 'postgres.log', 'server.key']) yield join(path, inner)
  }
}

const namesIn = (directory: string): Promise<string[]> => readdir(directory).catch(() => [])

async function isUsable(path: string): Promise<boolean> {
  try {
    // Most files are written once and then only read, so they may be read-only.
    const { R_OK, W_OK, X_OK } = constants
    const more = (await stat(path)).isDirectory() ? W_OK | X_OK : path.endsWith('.log') ? W_OK : 0
    await access(path, R_OK | more)
    return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    // A read-only file system is not a question of ownership.
    if (code === 'EROFS') throw error
    return code === 'ENOENT'
  }
}

async function notUsable(dataDir: string, path: string): Promise<DirectoryUnusable> {
  const { owner, modeProblem } = await whyInaccessible(path)
  if (modeProblem !== null) return new DirectoryUnusable(`${path} cannot be used: ${modeProblem}.`)
  const us = process.getuid?.()
  // The files beside it probably have the same problem and would be next.
  const top = join(dataDir, relative(dataDir, path).split(sep)[0]!)
  return new DirectoryUnusable(
    `${path} belongs to the user with id ${owner}, but Keyhook runs as the user with id ${us}: change the owner ` +
      `(as root: chown -R ${us}:${process.getgid?.()} ${await realpath(top)}), or run Keyhook as that user.`,
  )
}
