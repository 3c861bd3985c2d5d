import { chmod, mkdir, stat, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { accountFor } from '../../embedded/account.ts'
import { checkBelongings } from '../../embedded/belongings.ts'
import { type Binaries, installedNative, readyBinaries } from '../../embedded/binaries.ts'
import { clusterOwner } from '../../embedded/cluster.ts'
import { directoryId, nameFrom, prepareDataDirectory } from '../../embedded/data-directory.ts'
import { hostOf, leaveToHost } from '../../embedded/host.ts'
import { type Account, firstBarrier } from '../../embedded/reach.ts'
import { systemClusters } from '../../embedded/system-home.ts'

/** Where the instances of one data directory live, and who runs them. */
export type Home = { path: string; account: Account | undefined; binaries: Binaries; version: string }

/** Names the machine (strictly: the data directory) that holds files. One process at a time may act for it. */
export async function nodeOf(dataDir: string): Promise<{ node: string; holdName: string; dataDir: string }> {
  const real = await prepareDataDirectory(dataDir)
  const id = await directoryId(real)
  await checkBelongings(real)
  return { node: nameFrom(id, 'node'), holdName: nameFrom(id, 'platform'), dataDir: real }
}

/**
 * In the data directory, unless the account that runs PostgreSQL cannot get there. The directories down to an instance
 * belong to us and may only be entered; what the account owns begins with each cluster, so that nothing it could plant
 * is ever opened by root. Only where root serves somebody else's data directory is all of it theirs, as before.
 */
export async function openHome(dataDir: string): Promise<Home> {
  const native = await installedNative()
  const account = await accountFor(await clusterOwner(dataDir))
  const binaries = await readyBinaries(native, dataDir, account)
  const inside = join(dataDir, 'databases')
  const reachable = account === undefined || (await firstBarrier(dataDir, account)) === undefined
  const path = reachable ? inside : join(await systemClusters(), nameFrom(await directoryId(dataDir), 'databases'))
  const made = await mkdir(path, { recursive: true })
  if (made !== undefined && account?.uid === (await hostOf(dataDir))?.uid) await leaveToHost(path)
  await chmod(path, account === undefined ? 0o700 : 0o711)
  if (path !== inside) await pointTo(path, inside)
  return { path, account, binaries, version: await versionOf(binaries) }
}

/** A signpost for people: whoever looks into the data directory finds the databases, wherever they had to go. */
async function pointTo(path: string, link: string): Promise<void> {
  await symlink(path, link).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
}

/** Templates of one build of PostgreSQL are not for another; its size and date tell builds apart without running it. */
async function versionOf({ postgres }: Binaries): Promise<string> {
  const { size, mtimeMs } = await stat(postgres)
  return `${size.toString(36)}-${Math.floor(mtimeMs).toString(36)}`
}
