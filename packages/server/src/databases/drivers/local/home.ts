import { chmod, mkdir, stat, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { type Account, accountFor, firstClosedDirectory } from '../../../postgres/account.ts'
import { type Binaries, findPostgres, systemClusters } from '../../../postgres/binaries.ts'
import { clusterOwner } from '../../../postgres/cluster.ts'
import { directoryId, nameFrom, prepareDataDirectory } from '../../../postgres/data-directory.ts'
import { whyNoNamespaces } from '../../../postgres/namespaces.ts'
import { checkOwnership, foreignOwnerOf, giveToDirectoryOwner } from '../../../postgres/ownership.ts'
import { type UidRange, usableUids } from '../../../postgres/uids.ts'
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

/** What separates the databases of a data directory from each other; docs/isolation.md describes the three modes. */
export type Isolation = { mode: 'uids' | 'namespaces' } | { mode: 'shared'; why: string }

export async function isolationOf(dataDir: string, wanted: UidRange | null): Promise<Isolation> {
  if ((await foreignOwnerOf(dataDir)) !== undefined)
    return { mode: 'shared', why: `root runs them as the owner of ${dataDir}` }
  if ((await usableUids(wanted)) !== null) return { mode: 'uids' }
  const why = await whyNoNamespaces()
  return why === null ? { mode: 'namespaces' } : { mode: 'shared', why: `namespaces cannot be used: ${why}` }
}
