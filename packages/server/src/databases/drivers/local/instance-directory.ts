import { randomBytes } from 'node:crypto'
import { constants, lstat, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type DatabaseId, isId } from '../../../lib/ids.ts'
import type { Account } from '../../../postgres/account.ts'
import { syncDirectory, writeSecret } from '../../../postgres/data-directory.ts'
import { giveClusterTo, giveToDirectoryOwner } from '../../../postgres/ownership.ts'
import type { RunAs } from '../../../postgres/start-program.ts'
import { whyNoNamespaces } from '../../../postgres/start-program.ts'
import { removeTree, type UntrustedTree, untrustedTree } from '../../../postgres/untrusted-files.ts'
import { extensionSettings } from './extensions.ts'
import { type Home, readIfThere } from './home.ts'

/*
 * One directory per instance:
 *   <home>/<database id>/cluster        the data directory of PostgreSQL
 *                        port           its TCP port, which never changes
 *                        uid            of its account, if it has one of its own; never changes
 *                        postgres.log
 *                        pg_hba.conf, server.crt, server.key   written at every start
 *   <home>/<database id>.removed-…      being removed
 */
export type InstanceDirectory = { path: string; cluster: string }

export const instanceDirectory = (home: Home, id: DatabaseId): InstanceDirectory => {
  const path = join(home.path, id)
  return { path, cluster: join(path, 'cluster') }
}

const exists = async (path: string): Promise<boolean> => (await stat(path).catch(() => null)) !== null

/** `fill` works on a staging directory, which is renamed at the end: a cluster under its final name is complete, whenever a process was killed. */
export async function createCluster(
  home: Home,
  { path, cluster }: InstanceDirectory,
  fill: (staging: string, runAs: RunAs) => Promise<void>,
): Promise<void> {
  await mkdir(path, { recursive: true })
  await giveToDirectoryOwner(path)
  const runAs = await runAsOf(home, { path })
  await openToAccountOnly(home, path, runAs.account)
  for (const name of await readdir(path)) {
    if (name.startsWith('preparing-')) await removeTree(join(path, name))
  }
  if (await exists(cluster)) return
  const staging = join(path, `preparing-${randomBytes(6).toString('hex')}`)
  await mkdir(staging, { mode: 0o700 })
  try {
    await fill(staging, runAs)
    await rename(staging, cluster)
    await syncDirectory(path)
  } catch (error) {
    await removeTree(staging)
    throw error
  }
}

/** Gives the cluster to the account that will run it: root may have restored it with a plain copy. */
export async function giveInstanceTo(
  account: Account | undefined,
  home: Home,
  { path, cluster }: InstanceDirectory,
): Promise<void> {
  // We create no links here, so a link is not followed.
  if (account === undefined || !(await lstat(path)).isDirectory()) return
  await openToAccountOnly(home, path, account)
  await giveClusterTo(account, cluster)
}

/** The directory of an instance belongs to us. Its account may enter, by its group if it has one of its own, and no other. */
async function openToAccountOnly(home: Home, path: string, account: Account | undefined): Promise<void> {
  const directory = await open(path, constants.O_DIRECTORY | constants.O_NOFOLLOW)
  try {
    if (account && home.uids) await directory.chown(0, account.gid)
    await directory.chmod(account === undefined ? 0o700 : home.uids ? 0o710 : 0o711)
  } finally {
    await directory.close()
  }
}

export const hasCluster = ({ cluster }: InstanceDirectory): Promise<boolean> => exists(join(cluster, 'PG_VERSION'))

const portPath = (directory: string): string => join(directory, 'port')

export async function readPort(directory: string): Promise<number | null> {
  const text = await readIfThere(portPath(directory))
  return text === null ? null : Number(text)
}

export const writePort = (directory: string, port: number): Promise<void> =>
  writeSecret(portPath(directory), String(port))

const forgetPort = (directory: string): Promise<void> => rm(portPath(directory), { force: true })

/** Renamed first, so that an interrupted removal never leaves an incomplete instance under its name. */
export async function removeDirectory(home: Home, id: DatabaseId): Promise<void> {
  const { path } = instanceDirectory(home, id)
  if (await exists(path)) await rename(path, `${path}.removed-${randomBytes(6).toString('hex')}`)
  for (const name of await readdir(home.path)) {
    if (name.startsWith(`${id}.removed-`)) await removeTree(join(home.path, name))
  }
}

export async function instancesIn(home: Home): Promise<DatabaseId[]> {
  const names = (await readdir(home.path)).map((name) => name.replace(/\.removed-.*$/, ''))
  return [...new Set(names)].filter((name) => isId('db', name))
}

/** The ports of the instances that have one, with the uids of their accounts. */
export async function portOwnersIn(home: Home): Promise<Map<number, number>> {
  const owners = new Map<number, number>()
  for (const id of await instancesIn(home)) {
    const { path } = instanceDirectory(home, id)
    const [port, account] = [await readPort(path), await home.uids?.accountOf(path)]
    if (port !== null && account) owners.set(port, account.uid)
  }
  return owners
}

/** Another program took the port after our check. No client knows it yet, so the next attempt takes another. */
export const forgetTakenPort =
  ({ path }: InstanceDirectory) =>
  async (error: unknown): Promise<never> => {
    if (/could not (bind|create any TCP)/.test(String(error))) await forgetPort(path)
    throw error
  }

/** Who the server of an instance and the tools on its files run as, and what limits them. Its directory has to exist. */
export async function runAsOf(home: Home, { path }: { path: string }): Promise<RunAs> {
  const { account, uids, dataDir } = home
  if (uids !== null) return { account: await uids.accountFor(path) }
  if ((await whyNoNamespaces()) !== null) return { account }
  const extensions = Object.values(await extensionSettings(home))
  return { account, view: { readable: [path, ...extensions], hidden: dataDir } }
}

/** The files of an instance, which its account may have replaced. */
export async function clusterTree(home: Home, id: DatabaseId): Promise<UntrustedTree> {
  const directory = instanceDirectory(home, id)
  const { account } = await runAsOf(home, directory)
  return untrustedTree(directory.cluster, account?.uid ?? process.getuid?.())
}
