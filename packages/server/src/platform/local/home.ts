import { chmod, mkdir, stat, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { accountFor } from '../../embedded/account.ts'
import type { Binaries } from '../../embedded/binaries.ts'
import { clusterOwner } from '../../embedded/cluster.ts'
import { directoryId, nameFrom, prepareDataDirectory } from '../../embedded/data-directory.ts'
import { findPostgres } from '../../embedded/find-postgres.ts'
import { checkOwnership, foreignOwnerOf, giveToDirectoryOwner } from '../../embedded/ownership.ts'
import { type Account, firstClosedDirectory } from '../../embedded/permissions.ts'
import { systemClusters } from '../../embedded/system-home.ts'
import { type UidRange, usableUids } from '../../embedded/uids.ts'
import { createInstanceUids, type InstanceUids } from './instance-uids.ts'

/** The directory of the instances, and the accounts and binaries that run them. */
export type Home = {
  dataDir: string
  path: string
  /** Makes the template, and runs the instances where they have no uids of their own. */
  account: Account | undefined
  /** One for each instance, if Keyhook runs as root. */
  uids: InstanceUids | null
  binaries: Binaries
  version: string
}

/** The id of a node, which is its data directory, and the lock that allows one process at a time to act for it. */
export async function nodeOf(dataDir: string): Promise<{ node: string; lockName: string; dataDir: string }> {
  const real = await prepareDataDirectory(dataDir)
  const id = await directoryId(real)
  await checkOwnership(real)
  return { node: nameFrom(id, 'node'), lockName: nameFrom(id, 'platform'), dataDir: real }
}

/**
 * In the data directory, unless the accounts that run PostgreSQL cannot enter that. An account owns only its cluster and may
 * enter the directories above it, so root never opens a file that the account created. In another user's data directory
 * everything belongs to that user.
 */
export async function openHome(
  dataDir: string,
  wanted: UidRange | null = null,
  postgresBin: string | null = null,
): Promise<Home> {
  const findBinaries = await findPostgres(postgresBin)
  const account = await accountFor(await clusterOwner(dataDir))
  const owner = await foreignOwnerOf(dataDir)
  const range = owner === undefined ? await usableUids(wanted) : null
  // Nobody in particular: what such a uid can reach, all of the range can.
  const anyone = range === null ? account : { uid: range.first, gid: range.first }
  const binaries = await findBinaries(dataDir, anyone)
  const preferred = join(dataDir, 'databases')
  const reachable = anyone === undefined || (await firstClosedDirectory(dataDir, anyone)) === undefined
  const id = await directoryId(dataDir)
  const path = reachable ? preferred : join(await systemClusters(), nameFrom(id, 'databases'))
  const created = await mkdir(path, { recursive: true })
  if (created !== undefined && account?.uid === owner?.uid) await giveToDirectoryOwner(path)
  await chmod(path, account === undefined ? 0o700 : 0o711)
  if (path !== preferred) await linkTo(path, preferred)
  const uids = range && createInstanceUids({ home: path, seed: nameFrom(id, 'uids'), range })
  return { dataDir, path, account, uids, binaries, version: await versionOf(binaries) }
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
