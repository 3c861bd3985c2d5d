import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import {
  database,
  type FoundCluster,
  initialise,
  linkCluster,
  lockDataDirectory,
  removeStaging,
  singleUser,
  superuser,
} from './cluster.ts'
import { passwordPath, readSecret, removeServerAddress, writeSecret, writeServerAddress } from './data-directory.ts'
import type { DirectoryLock, Purpose } from './data-directory-lock.ts'
import { DataDirectoryInUse } from './data-directory-lock.ts'
import { port, readLockFile } from './lock-file.ts'
import { removeDeadSegments, stopOrphan } from './orphan.ts'
import { giveClusterTo } from './ownership.ts'
import { type Postmaster, startPostmaster } from './postmaster.ts'
import { whyNoNamespaces } from './start-program.ts'

export { DataDirectoryInUse } from './data-directory-lock.ts'

/** `host` is the directory of the server's socket. */
export type EmbeddedConnection = { host: string; port: number; user: string; password: string; database: string }

export type Embedded = {
  connection: EmbeddedConnection
  /** False for a command that shares the server of a running `keyhook serve`. */
  owned: boolean
  /** Sets the address for commands, and for another process that finds the data directory in use. */
  announce(url: string): void
  stop(): Promise<void>
}

export type EmbeddedOptions = {
  dataDir: string
  purpose: Purpose
  /** The directory with the operator's PostgreSQL. Null: the one of npm. */
  postgresBin?: string | null
  settings?: Readonly<Record<string, string>>
  /** Progress for a terminal. */
  note?: (text: string) => void
  /** The data directory is locked and PostgreSQL is about to start: other work can run in parallel from here on. */
  onHeld?: () => void
  /** PostgreSQL ended without a call of `stop`. */
  onExit?: (why: string) => void
}

/** The PostgreSQL of a data directory: a new one, or for a command that of a running `keyhook serve`. */
export async function openEmbedded(options: EmbeddedOptions): Promise<Embedded> {
  const note = options.note ?? (() => {})
  const { acquired, dataDir, find } = await lockDataDirectory(options, { purpose: options.purpose, note })
  if (acquired.kind === 'shared') return await share(dataDir)

  const { lock } = acquired
  try {
    options.onHeld?.()
    const onExit = (why: string) => {
      lock.update({ ready: false, socketDirectory: null })
      options.onExit?.(why)
    }
    const settings = options.settings ?? {}
    const { postmaster, password } = await startServer({ dataDir, find, settings, note, onExit })
    lock.update({ ready: true, socketDirectory: postmaster.socketDirectory })
    return own(lock, dataDir, postmaster, password)
  } catch (error) {
    await lock.release()
    throw error
  }
}

/** Needs the lock. Starts the server from whatever state an earlier process left the directory in. */
async function startServer(request: {
  dataDir: string
  find: () => Promise<FoundCluster>
  settings: Readonly<Record<string, string>>
  note: (text: string) => void
  onExit: (why: string) => void
}): Promise<{ postmaster: Postmaster; password: string }> {
  const { dataDir, find, settings, note, onExit } = request
  const { account, binaries, location } = await find()
  const cluster = location.path
  await removeStaging(location)
  await removeDeadSegments(account?.uid ?? process.getuid!())

  if (location.initialised) {
    if ((await stopOrphan(cluster, { note })) === 'elsewhere') throw new DataDirectoryInUse(inUseElsewhere(dataDir))
    if (account) await giveClusterTo(account, cluster)
  }

  const known = await readSecret(passwordPath(dataDir))
  const password = known ?? randomBytes(24).toString('hex')
  const sync = settings.fsync !== 'off'
  if (!location.initialised) {
    note(`Preparing PostgreSQL in ${cluster} (first start only).`)
    // Before the cluster: a cluster without a stored password could not be used.
    if (known === undefined) await writeSecret(passwordPath(dataDir), password)
    await initialise(location, { binaries, account, password, sync })
  } else if (known === undefined) {
    note(`${passwordPath(dataDir)} was lost; the database gets a new password.`)
    await singleUser(cluster, `alter role ${superuser} password '${password}'`, { binaries, account, fsync: sync })
    await writeSecret(passwordPath(dataDir), password)
  }
  await linkCluster(location)
  const view = (await whyNoNamespaces()) === null ? { readable: [], hidden: dataDir } : undefined
  const postmaster = await startPostmaster({ dataDir, cluster, binaries, account, view, settings, note, onExit })
  return { postmaster, password }
}

function own(lock: DirectoryLock, dataDir: string, postmaster: Postmaster, password: string): Embedded {
  let stopped: Promise<void> | undefined
  return {
    connection: connectionTo(postmaster.socketDirectory, password),
    owned: true,
    announce(url) {
      lock.update({ url })
      writeServerAddress(dataDir, url)
    },
    stop() {
      lock.update({ ready: false, socketDirectory: null })
      // The lock is released last, or the next process would find a server that is still shutting down.
      stopped ??= postmaster.stop().finally(() => {
        removeServerAddress(dataDir)
        return lock.release()
      })
      return stopped
    },
  }
}

async function share(dataDir: string): Promise<Embedded> {
  // Read from the lock file, which only its owner can write, and not from the lock holder's answer: after Keyhook has
  // ended, another user could listen under the same name and receive our password.
  const lock = await readLockFile(join(dataDir, 'postgres'))
  const password = await readSecret(passwordPath(dataDir))
  if (!lock?.ready || lock.socketDirectory === undefined || password === undefined) {
    throw new DataDirectoryInUse(`The server on the data directory ${dataDir} has just stopped: try again.`)
  }
  return { connection: connectionTo(lock.socketDirectory, password), owned: false, announce() {}, async stop() {} }
}

const connectionTo = (host: string, password: string): EmbeddedConnection => ({
  host,
  port,
  user: superuser,
  password,
  database,
})

const inUseElsewhere = (dataDir: string): string =>
  `The data directory ${dataDir} is in use by a PostgreSQL that is not a process of this machine, probably in another ` +
  'container: stop that one first, or give this one another data directory.'
