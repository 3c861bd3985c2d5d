import { join } from 'node:path'
import { acquire, DataDirectoryInUse } from './acquire.ts'
import { checkBelongings } from './belongings.ts'
import { installedNative } from './binaries.ts'
import { database, superuser } from './cluster.ts'
import { directoryId, nameFrom, prepareDataDirectory, readSecret } from './data-directory.ts'
import type { Hold, Purpose } from './hold.ts'
import { readLockFile } from './lock-file.ts'
import type { Postmaster } from './postmaster.ts'
import { port } from './socket-directory.ts'
import { passwordPath, startServer } from './start.ts'

export { DataDirectoryInUse } from './acquire.ts'

/** `host` is the directory of the server's socket. */
export type EmbeddedConnection = { host: string; port: number; user: string; password: string; database: string }

export type Embedded = {
  connection: EmbeddedConnection
  /** False for a command that shares the server of a running `keyhook serve`. */
  owned: boolean
  /** The address told to whoever finds the data directory in use. */
  announce(url: string): void
  stop(): Promise<void>
}

export type EmbeddedOptions = {
  dataDir: string
  purpose: Purpose
  settings?: Readonly<Record<string, string>>
  /** Progress worth a line on a terminal. */
  note?: (text: string) => void
  /** The data directory is ours from here on, and PostgreSQL is about to be started: what may happen beside that can begin. */
  onHeld?: () => void
  /** PostgreSQL ended although nobody called `stop`. */
  onExit?: (why: string) => void
}

/** The PostgreSQL of a data directory: started for us, or the one that a running `keyhook serve` lends to a command. */
export async function openEmbedded(options: EmbeddedOptions): Promise<Embedded> {
  const note = options.note ?? (() => {})
  // First, so that a platform without it is told so before anything is written.
  const native = await installedNative()
  const dataDir = await prepareDataDirectory(options.dataDir)
  const id = await directoryId(dataDir)
  await checkBelongings(dataDir)
  const acquired = await acquire({ dataDir, name: nameFrom(id, 'hold'), purpose: options.purpose, note })
  if (acquired.kind === 'shared') return await share(dataDir)

  const { hold } = acquired
  try {
    options.onHeld?.()
    const onExit = (why: string) => {
      hold.update({ ready: false, socketDirectory: null })
      options.onExit?.(why)
    }
    const { postmaster, password } = await startServer({
      native,
      dataDir,
      id,
      settings: options.settings ?? {},
      note,
      onExit,
    })
    hold.update({ ready: true, socketDirectory: postmaster.socketDirectory })
    return own(hold, postmaster, password)
  } catch (error) {
    await hold.release()
    throw error
  }
}

function own(hold: Hold, postmaster: Postmaster, password: string): Embedded {
  let stopped: Promise<void> | undefined
  return {
    connection: connectionTo(postmaster.socketDirectory, password),
    owned: true,
    announce: (url) => hold.update({ url }),
    stop() {
      hold.update({ ready: false, socketDirectory: null })
      // The hold goes last: until then a successor would find a server that is still shutting down.
      stopped ??= postmaster.stop().finally(() => hold.release())
      return stopped
    },
  }
}

async function share(dataDir: string): Promise<Embedded> {
  // From the lock file, which only the owner can write, and not from the holder's answer: once Keyhook has ended, another
  // user of this machine could listen under its name and send us, password in hand, to a server of theirs.
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
