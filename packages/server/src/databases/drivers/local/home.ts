import { createHash } from 'node:crypto'
import { chmod, mkdir, readdir, readFile, stat, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { createKeyedQueue } from '../../../lib/keyed-queue.ts'
import { StepFailure } from '../../../lib/step-failure.ts'
import { type Account, accountFor, firstClosedDirectory } from '../../../postgres/account.ts'
import { type Binaries, findPostgres, systemClusters } from '../../../postgres/binaries.ts'
import { clusterOwner } from '../../../postgres/cluster.ts'
import { directoryId, nameFrom, prepareDataDirectory, writeSecret } from '../../../postgres/data-directory.ts'
import { checkOwnership, foreignOwnerOf, giveToDirectoryOwner } from '../../../postgres/ownership.ts'
import { whyNoNamespaces } from '../../../postgres/start-program.ts'
import { isUnused, type UidRange, usableUids } from '../../../postgres/uids.ts'

/** The directory of the instances, and the accounts and binaries that run them. */
export type Home = {
  dataDir: string
  path: string
  /** Makes the template, and runs the instances where they have no uids of their own. */
  account: Account | undefined
  /** One for each instance, if Keyhook runs as root. */
  uids: ReturnType<typeof createInstanceUids> | null
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

/** Uids are given in turn, so one is used again only after the whole range, and only if nothing of its former owner is left. */
function createInstanceUids(deps: { home: string; seed: string; range: UidRange }) {
  const requests = createKeyedQueue()
  const size = deps.range.last - deps.range.first + 1
  const nextPath = join(deps.home, 'next-uid')

  async function take(directory: string): Promise<number> {
    const kept = await readUid(join(directory, 'uid'))
    if (kept !== null) return kept
    const taken = await uidsIn(deps.home)
    // Two data directories on one machine start at different places, so that they do not give the same uids.
    let next =
      (await readUid(nextPath)) ??
      deps.range.first + (createHash('sha256').update(deps.seed).digest().readUInt32BE() % size)
    for (let tried = 0; tried < size; tried++, next++) {
      if (next < deps.range.first || next > deps.range.last) next = deps.range.first
      if (taken.has(next) || !(await isUnused(next))) continue
      // Before the uid is used: after a crash it is skipped.
      await writeSecret(nextPath, String(next + 1))
      await writeSecret(join(directory, 'uid'), String(next))
      return next
    }
    throw new StepFailure('No user id is free for it on its node.', { permanent: true })
  }

  return {
    /** The account of an instance, which it keeps. The directory has to exist. */
    accountFor: async (directory: string): Promise<Account> =>
      accountWith(await requests.run('uid', () => take(directory))),
    /** Null if it has none yet. */
    async accountOf(directory: string): Promise<Account | null> {
      const uid = await readUid(join(directory, 'uid'))
      return uid === null ? null : accountWith(uid)
    },
  }
}

/** A group of its own as well: a shared one would open what is closed to others. */
const accountWith = (uid: number): Account => ({ uid, gid: uid })

/** Of instances that exist, and of those whose removal has not finished. */
async function uidsIn(home: string): Promise<Set<number | null>> {
  const names = (await readdir(home)).filter((name) => name.startsWith('db_'))
  return new Set(await Promise.all(names.map((name) => readUid(join(home, name, 'uid')))))
}

export const readIfThere = (path: string): Promise<string | null> =>
  readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null
    throw error
  })

async function readUid(path: string): Promise<number | null> {
  const text = await readIfThere(path)
  if (text === null) return null
  const uid = Number(text)
  // 0 would be root.
  if (!Number.isSafeInteger(uid) || uid < 1) throw new Error(`${path} does not hold a user id`)
  return uid
}
