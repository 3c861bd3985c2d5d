import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { accountFor } from './account.ts'
import { DataDirectoryInUse } from './acquire.ts'
import { readyBinaries } from './binaries.ts'
import {
  clusterOwner,
  giveTo,
  initialise,
  linkCluster,
  placeCluster,
  removeWorkshops,
  singleUser,
  superuser,
} from './cluster.ts'
import { nameFrom, readSecret, writeSecret } from './data-directory.ts'
import { clearOrphan } from './orphan.ts'
import { type Postmaster, startPostmaster } from './postmaster.ts'

type Request = {
  native: string
  dataDir: string
  id: string
  settings: Readonly<Record<string, string>>
  note: (text: string) => void
  onExit: (why: string) => void
}

export const passwordPath = (dataDir: string): string => join(dataDir, 'postgres.password')

/** Only for whoever holds the data directory: from whatever state a predecessor left it in to a running server. */
export async function startServer(request: Request): Promise<{ postmaster: Postmaster; password: string }> {
  const { native, dataDir, id, settings, note, onExit } = request
  const account = await accountFor(await clusterOwner(dataDir))
  const binaries = await readyBinaries(native, dataDir, account)
  const place = await placeCluster(dataDir, account, nameFrom(id, 'cluster'))
  const cluster = place.path
  await removeWorkshops(place)

  if (place.initialised) {
    if ((await clearOrphan(cluster, { note })) === 'elsewhere') throw new DataDirectoryInUse(inUseElsewhere(dataDir))
    if (account) await giveTo(account, cluster)
  }

  const known = await readSecret(passwordPath(dataDir))
  const password = known ?? randomBytes(24).toString('hex')
  const sync = settings.fsync !== 'off'
  if (!place.initialised) {
    note(`Preparing PostgreSQL in ${cluster} (first start only).`)
    // Before the cluster: one whose password nobody wrote down would be of no use.
    if (known === undefined) await writeSecret(passwordPath(dataDir), password)
    await initialise(place, { binaries, account, password, sync })
  } else if (known === undefined) {
    note(`${passwordPath(dataDir)} was lost; the database gets a new password.`)
    await singleUser(cluster, `alter role ${superuser} password '${password}'`, { binaries, account, fsync: sync })
    await writeSecret(passwordPath(dataDir), password)
  }
  await linkCluster(place)
  return {
    postmaster: await startPostmaster({ dataDir, cluster, binaries, account, settings, note, onExit }),
    password,
  }
}

const inUseElsewhere = (dataDir: string): string =>
  `The data directory ${dataDir} is in use by a PostgreSQL that cannot be seen from here as a process, probably in ` +
  'another container: stop that one first, or give this one another data directory.'
