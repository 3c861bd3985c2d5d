import { constants } from 'node:fs'
import { access, chmod, lchown, lstat, mkdir, open, readdir, realpath, stat } from 'node:fs/promises'
import { dirname, join, relative, sep } from 'node:path'
import { type Account, isRoot, pathsFromRoot, whyInaccessible } from './account.ts'
import { runTool } from './start-program.ts'

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

/** The text is for the operator who chose the directory. */
export class DirectoryUnusable extends Error {
  override readonly name = 'DirectoryUnusable'
}

/** An absolute path, and the setting that it comes from. */
export type ConfiguredDirectory = { path: string; setting: string }

/**
 * Creates the directory and its missing parents. True if anything was created.
 * Not mkdir's `recursive`: where a file system answers ENOENT to a new directory, as /proc does, Node retries for ever.
 */
export async function ensureDirectory(wanted: ConfiguredDirectory, mode: number): Promise<boolean> {
  let created = false
  for (const path of pathsFromRoot(wanted.path)) {
    if (await isDirectory(path, wanted)) continue
    try {
      await mkdir(path)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      // Another process that starts at the same time was faster.
      if (code === 'EEXIST' && (await isDirectory(path, wanted))) continue
      throw unusable(wanted, `${path} cannot be made (${code}). ${remedy(wanted)}`, error)
    }
    // Set explicitly, because mkdir subtracts the umask: under 077 the account of PostgreSQL could not enter.
    await chmod(path, mode)
    created = true
  }
  return created
}

async function isDirectory(path: string, wanted: ConfiguredDirectory): Promise<boolean> {
  try {
    if ((await stat(path)).isDirectory()) return true
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return false
    throw unusable(wanted, `${path} cannot be accessed (${code}). ${remedy(wanted)}`, error)
  }
  throw unusable(wanted, `${path} is no directory`)
}

const remedy = ({ setting }: ConfiguredDirectory): string =>
  `Give this user access, or set ${setting} to a directory that it can make or write to`

/** A variable that is not set is not named: the path is then the default. */
export const unusable = ({ path, setting }: ConfiguredDirectory, why: string, cause?: unknown): DirectoryUnusable => {
  const name = process.env[setting] === undefined ? 'The directory' : `${setting}:`
  return new DirectoryUnusable(`${name} "${path}" cannot be used: ${why}.`, { cause })
}
