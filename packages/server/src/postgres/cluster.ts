import { randomBytes } from 'node:crypto'
import { chown, lstat, mkdir, readdir, realpath, rename, rm, rmdir, stat, symlink, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { type Account, accountFor, firstClosedDirectory, MachineUnfit } from './account.ts'
import { type Binaries, clustersHome, type FindBinaries, findPostgres, systemClusters } from './binaries.ts'
import {
  directoryId,
  nameFrom,
  passwordPath,
  prepareDataDirectory,
  syncDirectory,
  writeSecret,
} from './data-directory.ts'
import { acquireLock, DataDirectoryInUse, type Purpose } from './data-directory-lock.ts'
import { checkOwnership } from './ownership.ts'
import { runTool, type ToolOptions } from './start-program.ts'

export const superuser = 'keyhook'
export const database = 'keyhook'

/** `link` is the path in the data directory that has to point to a cluster outside of it. */
export type ClusterLocation = { path: string; link: string | undefined; initialised: boolean }

/** The owner of the clusters in a data directory: of our own, or else of the customers' databases. */
export async function clusterOwner(dataDir: string): Promise<Account | undefined> {
  const ownerOf = (name: string) => stat(join(dataDir, name)).catch(() => undefined)
  return (await ownerOf('postgres')) ?? (await ownerOf('databases'))
}

/** Where the cluster is, or will be: in the data directory, unless the account that runs it cannot enter that. */
async function locateCluster(dataDir: string, account: Account | undefined, ownName: string): Promise<ClusterLocation> {
  const home = join(dataDir, 'postgres')
  const found = await lstat(home).catch(() => undefined)
  if (found?.isSymbolicLink()) return { path: await followLink(home, ownName), link: undefined, initialised: true }

  const closed = account && (await firstClosedDirectory(dataDir, account))
  const initialised = found !== undefined && (await isInitialised(home))
  if (closed === undefined) return { path: home, link: undefined, initialised }
  if (initialised) {
    throw new Error(
      `PostgreSQL runs as the user with id ${account?.uid}, who cannot enter ${closed} and so cannot reach ${home}: ` +
        `let others enter it (chmod o+x ${closed}), or move the data directory.`,
    )
  }
  const path = join(await systemClusters(), ownName)
  return { path, link: home, initialised: await isInitialised(path) }
}

async function followLink(link: string, ownName: string): Promise<string> {
  const target = await realpath(link).catch(() => undefined)
  if (target === undefined || !(await isInitialised(target))) {
    // Never start empty here: the link shows that there was data, and an empty database would hide the loss.
    throw new Error(
      `${link} points to a PostgreSQL cluster that is not there: restore it, or remove the link to start empty.`,
    )
  }
  if (dirname(target) === clustersHome && basename(target) !== ownName) {
    throw new Error(
      `${link} points to the cluster of another data directory (${target}); it was probably copied from there. ` +
        'Remove the link to start empty, or use the original directory.',
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
 * Works in a staging directory and renames it at the end: a cluster that exists under its final name is complete, with
 * its password and its database, whenever a process was killed.
 */
export async function initialise(
  location: ClusterLocation,
  options: { binaries: Binaries; account: Account | undefined; password: string; sync: boolean },
): Promise<void> {
  const { binaries, account } = options
  const parent = dirname(location.path)
  const staging = `${location.path}.preparing-${randomBytes(6).toString('hex')}`
  await mkdir(staging, { mode: 0o700 })
  try {
    const cluster = join(staging, 'cluster')
    const passwordFile = join(staging, 'password')
    await writeFile(passwordFile, options.password, { mode: 0o600, flag: 'wx' })
    if (account) {
      await chown(passwordFile, account.uid, account.gid)
      await chown(staging, account.uid, account.gid)
    }
    await runInitdb(cluster, [`--pwfile=${passwordFile}`, '--auth=scram-sha-256'], { binaries, account })
    await singleUser(cluster, `create database ${database}`, { binaries, account, fsync: false })
    // Once, at the end: until the rename nothing depends on it.
    if (options.sync) await syncCluster(cluster, { binaries, account })
    await rename(cluster, location.path)
    await syncDirectory(parent)
  } finally {
    await rm(staging, { recursive: true, force: true })
  }
}

/**
 * The builtin provider sorts the same on every machine, and needs no locale of the operating system. Before version 17 there is
 * none: then sorting is by bytes as well, and upper and lower case come from the system's C.UTF-8.
 */
const localeOf = ({ major }: Binaries): string[] =>
  major >= 17
    ? ['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8']
    : ['--encoding=UTF8', '--locale=C', '--lc-ctype=C.UTF-8']
const initdbOptions = [`--username=${superuser}`, '--data-checksums', '--no-instructions', '--no-sync']

type ClusterTool = ToolOptions & { binaries: Binaries }

/** Nothing is on disk yet: call `syncCluster` at the end. */
export async function runInitdb(cluster: string, access: string[], { binaries, ...tool }: ClusterTool): Promise<void> {
  // It starts PostgreSQL through a shell, with the path in double quotes.
  const [odd] = /["$`\\]/.exec(binaries.initdb) ?? []
  if (odd !== undefined)
    throw new MachineUnfit(
      `PostgreSQL's initdb does not work at ${binaries.initdb}, because the path has the character ${odd} in it: move Keyhook to ` +
        'a path without double quotes, dollar signs, backticks and backslashes.',
    )
  await runTool(binaries.initdb, ['-D', cluster, ...localeOf(binaries), ...initdbOptions, ...access], tool)
}

export const syncCluster = (cluster: string, { binaries, ...tool }: ClusterTool): Promise<void> =>
  runTool(binaries.initdb, ['-D', cluster, '--sync-only'], tool)

export async function linkCluster({ path, link }: ClusterLocation): Promise<void> {
  if (link === undefined) return
  // Only an empty directory can be there; anything else was rejected before.
  await rmdir(link).catch(() => {})
  await symlink(path, link)
  await syncDirectory(dirname(link))
}

/** Runs statements, one per line, in PostgreSQL's single-user mode: without a server and without a password. */
export async function singleUser(
  cluster: string,
  statements: string,
  { binaries, fsync, ...tool }: ClusterTool & { fsync: boolean },
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

/** Removes what a killed initialisation left, including its password file. */
export async function removeStaging(location: ClusterLocation): Promise<void> {
  const prefix = `${basename(location.path)}.preparing-`
  for (const name of await readdir(dirname(location.path))) {
    // An initdb that outlived its parent may still write there; then the next start removes it.
    if (name.startsWith(prefix))
      await rm(join(dirname(location.path), name), { recursive: true, force: true }).catch(() => {})
  }
}

/** Locks a data directory, which is created if there is none; or finds that it can be shared with a running server. */
export async function lockDataDirectory(
  options: { dataDir: string; postgresBin?: string | null | undefined },
  { purpose, note }: { purpose: Purpose; note: (text: string) => void },
) {
  // First, so that an unsupported platform is reported before anything is written.
  const findBinaries = await findPostgres(options.postgresBin)
  const dataDir = await prepareDataDirectory(options.dataDir)
  const id = await directoryId(dataDir)
  await checkOwnership(dataDir)
  const acquired = await acquireLock({ dataDir, name: nameFrom(id, 'lock'), purpose, note })
  return { acquired, dataDir, find: () => findCluster(dataDir, id, findBinaries) }
}

/** Where the cluster of a locked data directory is or will be, who runs it, and with which programs. */
async function findCluster(dataDir: string, id: string, findBinaries: FindBinaries) {
  const account = await accountFor(await clusterOwner(dataDir))
  const binaries = await findBinaries(dataDir, account)
  return { account, binaries, location: await locateCluster(dataDir, account, nameFrom(id, 'cluster')) }
}

export type FoundCluster = Awaited<ReturnType<typeof findCluster>>

/** The data directory has a database already, which a restore never replaces. */
export class ClusterExists extends Error {
  override readonly name = 'ClusterExists'
}

type RestoreOptions = {
  dataDir: string
  postgresBin: string | null
  note: (text: string) => void
  /** Writes the files of the cluster, synced to disk and owned by the account. */
  fill(cluster: string, tools: { account: Account | undefined; binaries: Binaries }): Promise<void>
}

/**
 * Puts a cluster into a data directory that has none. PostgreSQL recovers it in a staging directory first, so a cluster under
 * its final name has been opened once, whenever a process was killed.
 */
export async function restoreCluster({ note, fill, ...options }: RestoreOptions): Promise<string> {
  const { acquired, dataDir, find } = await lockDataDirectory(options, { purpose: 'command', note })
  if (acquired.kind === 'shared') {
    throw new DataDirectoryInUse(`A Keyhook server runs on the data directory ${dataDir}: stop it first.`)
  }
  try {
    const { account, binaries, location } = await find()
    if (location.initialised) {
      throw new ClusterExists(
        `${location.path} has a database already. Restore into an empty data directory, or move that one away first.`,
      )
    }
    await removeStaging(location)
    await restoreInto(location, { dataDir, account, binaries, fill })
    return dataDir
  } finally {
    await acquired.lock.release()
  }
}

async function restoreInto(
  location: ClusterLocation,
  options: Pick<RestoreOptions, 'dataDir' | 'fill'> & { account: Account | undefined; binaries: Binaries },
): Promise<void> {
  const { dataDir, account, binaries } = options
  const staging = `${location.path}.preparing-${randomBytes(6).toString('hex')}`
  await mkdir(staging, { mode: 0o711 })
  try {
    const cluster = join(staging, 'cluster')
    await mkdir(cluster, { mode: 0o700 })
    await options.fill(cluster, { account, binaries })
    // The password of before may be lost with the old data directory, and recovery has to run in any case.
    const password = randomBytes(24).toString('hex')
    await singleUser(cluster, `alter role ${superuser} password '${password}'`, { binaries, account, fsync: true })
    await writeSecret(passwordPath(dataDir), password)
    await rename(cluster, location.path)
    await syncDirectory(dirname(location.path))
    await linkCluster(location)
  } finally {
    await rm(staging, { recursive: true, force: true })
  }
}
