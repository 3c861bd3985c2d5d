import { randomBytes } from 'node:crypto'
import { chown, mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { traceStep } from '../../../jobs/worker.ts'
import type { Account } from '../../../postgres/account.ts'
import type { Binaries } from '../../../postgres/binaries.ts'
import { runInitdb, singleUser, syncCluster } from '../../../postgres/cluster.ts'
import { syncDirectory } from '../../../postgres/data-directory.ts'
import { giveClusterTo } from '../../../postgres/ownership.ts'
import { removeTree } from '../../../postgres/untrusted-files.ts'
import { ownerDatabase, ownerRole } from '../../database.ts'
import { extensionRules } from './extensions.ts'
import type { Home } from './home.ts'

/** Part of the name, so that a cluster of an older Keyhook is not used. */
const edition = 4

const contentsOf = ({ major }: Binaries): string =>
  [
    ...extensionRules(major),
    `create role ${ownerRole} login nosuperuser nocreatedb nocreaterole noreplication`,
    `create database ${ownerDatabase} owner ${ownerRole}`,
  ].join('\n')

/** Each spare cluster comes from its own `initdb`: PostgreSQL does not replay the WAL of another system identifier, and a copy would share it. */
export function createSpareClusters(home: Home, signal: AbortSignal) {
  let opening: Promise<void> | undefined
  /** Ready, or being made. Who takes it waits for it, and who comes next makes another. */
  let spare: Promise<string> | undefined

  async function open(): Promise<void> {
    opening ??= existing(home).then((path) => {
      if (path !== undefined) spare = Promise.resolve(path)
    })
    await opening.catch((error: unknown) => {
      opening = undefined
      throw error
    })
  }

  return {
    /** Makes one, unless there is one. */
    async prepare(how?: { lowPriority: boolean }): Promise<void> {
      await open()
      if (spare === undefined) {
        const making = create(home, { signal, ...how })
        spare = making
        making.catch(() => {
          if (spare === making) spare = undefined
        })
      }
      await spare
    },
    /** Moves the spare one to `path`, an empty directory, when it is ready; without one, a new one. Gives it to the account. */
    async take(path: string, account: Account | undefined): Promise<void> {
      await open()
      const taken = spare ?? create(home, { signal })
      spare = undefined
      await rename(await taken, path)
      if (account) await giveClusterTo(account, path)
    },
  }
}

const nameOf = (home: Home): string => `spare-${edition}-${home.version}-`

/** The one of an earlier run. Removes others, of killed attempts and other builds; the lock of the data directory makes sure that none is in use. */
async function existing(home: Home): Promise<string | undefined> {
  let found: string | undefined
  for (const name of await readdir(home.path)) {
    const path = join(home.path, name)
    const isUsable = name.startsWith(nameOf(home)) && !name.includes('.preparing-')
    if (isUsable && found === undefined) found = path
    else if (/^(spare|template)-/.test(name)) await removeTree(path)
  }
  if (found !== undefined && home.account) await giveClusterTo(ownerOf(home, home.account), found)
  return found
}

/** Root, where each instance has an account of its own: no account may change what becomes another's. */
const ownerOf = (home: Home, account: Account): Account => (home.uids === null ? account : { uid: 0, gid: 0 })

async function create(home: Home, run: { signal: AbortSignal; lowPriority?: boolean }): Promise<string> {
  const path = join(home.path, `${nameOf(home)}${randomBytes(6).toString('hex')}`)
  traceStep('spare.creating', path)
  const { account, binaries } = home
  const tool = { binaries, account, ...run }
  const staging = `${path}.preparing-`
  await mkdir(staging, { mode: 0o700 })
  if (account) await chown(staging, account.uid, account.gid)
  try {
    const cluster = join(staging, 'cluster')
    await runInitdb(cluster, ['--auth=reject'], tool)
    await singleUser(cluster, contentsOf(binaries), { ...tool, fsync: false })
    await syncCluster(cluster, tool)
    if (account) await giveClusterTo(ownerOf(home, account), cluster)
    await rename(cluster, path)
    await syncDirectory(home.path)
    return path
  } finally {
    // An aborted initdb may still write for a short time.
    await rm(staging, { recursive: true, force: true, maxRetries: 5 })
  }
}
