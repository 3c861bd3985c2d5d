import { randomBytes } from 'node:crypto'
import {
  chmod,
  chown,
  lchown,
  lstat,
  mkdir,
  readdir,
  realpath,
  rename,
  rm,
  rmdir,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import type { Binaries } from './binaries.ts'
import { syncDirectory } from './data-directory.ts'
import { type Account, firstBarrier } from './reach.ts'
import { clustersHome, systemClusters } from './system-home.ts'
import { runTool, type ToolOptions } from './tool.ts'

export const superuser = 'keyhook'
export const database = 'keyhook'

/** `link` is the path in the data directory that has to point to a cluster that lives elsewhere. */
export type Place = { path: string; link: string | undefined; initialised: boolean }

/** Whom the clusters of a data directory belong to: our own, or where there is none the databases of customers. */
export async function clusterOwner(dataDir: string): Promise<Account | undefined> {
  const ownerOf = (name: string) => stat(join(dataDir, name)).catch(() => undefined)
  return (await ownerOf('postgres')) ?? (await ownerOf('databases'))
}

/** Where the cluster is, or is to be: in the data directory, unless the account that runs it cannot get there. */
export async function placeCluster(dataDir: string, account: Account | undefined, ownName: string): Promise<Place> {
  const home = join(dataDir, 'postgres')
  const found = await lstat(home).catch(() => undefined)
  if (found?.isSymbolicLink()) return { path: await followLink(home, ownName), link: undefined, initialised: true }

  const barrier = account && (await firstBarrier(dataDir, account))
  const initialised = found !== undefined && (await isInitialised(home))
  if (barrier === undefined) return { path: home, link: undefined, initialised }
  if (initialised) {
    throw new Error(
      `PostgreSQL runs as the user with id ${account?.uid}, who cannot enter ${barrier} and so cannot reach ${home}: ` +
        `let others enter it (chmod o+x ${barrier}), or move the data directory.`,
    )
  }
  const path = join(await systemClusters(), ownName)
  return { path, link: home, initialised: await isInitialised(path) }
}

async function followLink(link: string, ownName: string): Promise<string> {
  const target = await realpath(link).catch(() => undefined)
  if (target === undefined || !(await isInitialised(target))) {
    // Never begin anew here: the link says that there was data, and an empty database would hide that it is gone.
    throw new Error(
      `${link} points to a PostgreSQL cluster that is not there: bring it back, or remove the link to begin empty.`,
    )
  }
  if (dirname(target) === clustersHome && basename(target) !== ownName) {
    throw new Error(
      `${link} points to the cluster of another data directory (${target}); it was probably copied from there. ` +
        'Remove the link to begin empty, or use the original directory.',
    )
  }
  return target
}

async function isInitialised(path: string): Promise<boolean> {
  const entries: string[] = await readdir(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return []
    throw error
  })
  if (entries.length > 0 && !entries.includes('PG_VERSION')) {
    throw new Error(`${path} is neither empty nor a PostgreSQL cluster: move what is in it elsewhere.`)
  }
  return entries.length > 0
}

/**
 * Everything happens in a directory beside the final place, and the rename comes last: a cluster that exists under its
 * own name is whole, with its password and its database, no matter when a predecessor was killed.
 */
export async function initialise(
  place: Place,
  options: { binaries: Binaries; account: Account | undefined; password: string; sync: boolean },
): Promise<void> {
  const { binaries, account } = options
  const parent = dirname(place.path)
  const workshop = `${place.path}.preparing-${randomBytes(6).toString('hex')}`
  await mkdir(workshop, { mode: 0o700 })
  try {
    const cluster = join(workshop, 'cluster')
    const passwordFile = join(workshop, 'password')
    await writeFile(passwordFile, options.password, { mode: 0o600, flag: 'wx' })
    if (account) {
      await chown(passwordFile, account.uid, account.gid)
      await chown(workshop, account.uid, account.gid)
    }
    // The builtin provider sorts and folds case alike on every machine, and needs no locale of the operating system.
    const locale = ['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8']
    const access = [`--username=${superuser}`, `--pwfile=${passwordFile}`, '--auth=scram-sha-256']
    const rest = ['--data-checksums', '--no-instructions', '--no-sync']
    await runTool(binaries.initdb, ['-D', cluster, ...locale, ...access, ...rest], { account })
    await singleUser(cluster, `create database ${database}`, { binaries, account, fsync: false })
    // Once, at the end: nothing before it counts until the rename.
    if (options.sync) await runTool(binaries.initdb, ['-D', cluster, '--sync-only'], { account })
    await rename(cluster, place.path)
    await syncDirectory(parent)
  } finally {
    await rm(workshop, { recursive: true, force: true })
  }
}

export async function linkCluster({ path, link }: Place): Promise<void> {
  if (link === undefined) return
  // Only an empty directory can be in the way; whatever else was there has been refused.
  await rmdir(link).catch(() => {})
  await symlink(path, link)
  await syncDirectory(dirname(link))
}

/** Statements, a line each, without a server and without a password: PostgreSQL's own way in for whoever owns the files. */
export async function singleUser(
  cluster: string,
  statements: string,
  { binaries, fsync, ...tool }: ToolOptions & { binaries: Binaries; fsync: boolean },
): Promise<void> {
  const settings = [
    'exit_on_error=on',
    `fsync=${fsync ? 'on' : 'off'}`,
    'log_checkpoints=off',
    'log_min_error_statement=panic',
  ]
  const args = ['--single', '-D', cluster, ...settings.flatMap((setting) => ['-c', setting]), 'template1']
  await runTool(binaries.postgres, args, { ...tool, input: `${statements}\n` })
}

/**
 * A cluster that root restored with a plain copy belongs to root, and PostgreSQL would refuse it. What is behind a link is
 * not given away: the account itself may have put the link there.
 */
export async function giveTo(account: Account, cluster: string): Promise<void> {
  const found = await lstat(cluster)
  if (!found.isDirectory() || found.uid === account.uid) return
  for (const entry of await readdir(cluster, { withFileTypes: true, recursive: true })) {
    await lchown(join(entry.parentPath, entry.name), account.uid, account.gid)
  }
  await chmod(cluster, 0o700)
  // Last, because it is what the next start looks at to know whether this was finished.
  await chown(cluster, account.uid, account.gid)
}

/** What a killed initialisation left, the password in it included. */
export async function removeWorkshops(place: Place): Promise<void> {
  const prefix = `${basename(place.path)}.preparing-`
  for (const name of await readdir(dirname(place.path))) {
    // An initdb that outlived its killed parent may still be writing there; then the next start sweeps up.
    if (name.startsWith(prefix))
      await rm(join(dirname(place.path), name), { recursive: true, force: true }).catch(() => {})
  }
}
