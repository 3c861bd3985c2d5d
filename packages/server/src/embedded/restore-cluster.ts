import { randomBytes } from 'node:crypto'
import { mkdir, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { accountFor } from './account.ts'
import { acquireLock, DataDirectoryInUse } from './acquire-lock.ts'
import type { Binaries } from './binaries.ts'
import {
  type ClusterLocation,
  clusterOwner,
  linkCluster,
  locateCluster,
  removeStaging,
  singleUser,
  superuser,
} from './cluster.ts'
import {
  directoryId,
  nameFrom,
  passwordPath,
  prepareDataDirectory,
  syncDirectory,
  writeSecret,
} from './data-directory.ts'
import { findPostgres } from './find-postgres.ts'
import { checkOwnership } from './ownership.ts'
import type { Account } from './permissions.ts'

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
export async function restoreCluster({ dataDir: given, postgresBin, note, fill }: RestoreOptions): Promise<string> {
  const findBinaries = await findPostgres(postgresBin)
  const dataDir = await prepareDataDirectory(given)
  const id = await directoryId(dataDir)
  await checkOwnership(dataDir)
  const acquired = await acquireLock({ dataDir, name: nameFrom(id, 'lock'), purpose: 'command', note })
  if (acquired.kind === 'shared') {
    throw new DataDirectoryInUse(`A Keyhook server runs on the data directory ${dataDir}: stop it first.`)
  }
  try {
    const account = await accountFor(await clusterOwner(dataDir))
    const binaries = await findBinaries(dataDir, account)
    const location = await locateCluster(dataDir, account, nameFrom(id, 'cluster'))
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
