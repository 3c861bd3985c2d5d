import { chmod, mkdir, stat, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { accountFor } from '../../embedded/account.ts'
import { type Binaries, installedNative, readyBinaries } from '../../embedded/binaries.ts'
import { clusterOwner } from '../../embedded/cluster.ts'
import { directoryId, nameFrom, prepareDataDirectory } from '../../embedded/data-directory.ts'
import { checkOwnership, foreignOwnerOf, giveToDirectoryOwner } from '../../embedded/ownership.ts'
import { type Account, firstClosedDirectory } from '../../embedded/permissions.ts'
import { systemClusters } from '../../embedded/system-home.ts'

/** The directory of the instances, and the account and binaries that run them. */
export type Home = { path: string; account: Account | undefined; binaries: Binaries; version: string }

/** The id of a node, which is its data directory, and the lock that allows one process at a time to act for it. */
export async function nodeOf(dataDir: string): Promise<{ node: string; lockName: string; dataDir: string }> {
  const real = await prepareDataDirectory(dataDir)
  const id = await directoryId(real)
  await checkOwnership(real)
  return { node: nameFrom(id, 'node'), lockName: nameFrom(id, 'platform'), dataDir: real }
}

/**
 * In the data directory, unless the account that runs PostgreSQL cannot enter that. The account owns only the clusters and
 * may enter the directories above them, so root never opens a file that the account created. In another user's data
 * directory everything belongs to that user.
 */
export async function openHome(dataDir: string): Promise<Home> {
  const native = await installedNative()
  const account = await accountFor(await clusterOwner(dataDir))
  const binaries = await readyBinaries(native, dataDir, account)
  const preferred = join(dataDir, 'databases')
  const reachable = account === undefined || (await firstClosedDirectory(dataDir, account)) === undefined
  const path = reachable ? preferred : join(await systemClusters(), nameFrom(await directoryId(dataDir), 'databases'))
  const created = await mkdir(path, { recursive: true })
  if (created !== undefined && account?.uid === (await foreignOwnerOf(dataDir))?.uid) await giveToDirectoryOwner(path)
  await chmod(path, account === undefined ? 0o700 : 0o711)
  if (path !== preferred) await linkTo(path, preferred)
  return { path, account, binaries, version: await versionOf(binaries) }
}

/** For people who look for the databases in the data directory. */
async function linkTo(path: string, link: string): Promise<void> {
  await symlink(path, link).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
}

/** A template fits one build of PostgreSQL. Size and date identify the build without running it. */
async function versionOf({ postgres }: Binaries): Promise<string> {
  const { size, mtimeMs } = await stat(postgres)
  return `${size.toString(36)}-${Math.floor(mtimeMs).toString(36)}`
}
