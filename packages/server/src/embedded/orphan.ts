import { rm, rmdir } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isPostgresOn, lockFilePath, readLockFile } from './lock-file.ts'
import { socketName } from './socket-directory.ts'

const stopMsMax = 60_000
const answersMin = 20

/** 'elsewhere': a server that we cannot see as a process, in another container say, answers on this cluster. */
export type Clearing = 'clear' | 'elsewhere'

type ClearOptions = {
  note: (text: string) => void
  /** The name of its socket. */
  socket?: string
  /** How long an orderly end may take before it is ended at once. Without it, it is waited for and then reported. */
  patienceMs?: number
}

/**
 * A Keyhook that was killed leaves its PostgreSQL running. Whoever holds the data directory next calls this; it ends that
 * server in an orderly way, or at once where that takes too long: its children end with it, and the next start recovers. It
 * is never killed: its children would go on writing beside the new server.
 */
export async function clearOrphan(cluster: string, options: ClearOptions): Promise<Clearing> {
  const socket = options.socket ?? socketName
  const clearing = await stopOrphan(cluster, socket, options)
  if (clearing === 'clear') {
    // Of its lock files PostgreSQL asks only whether the pid is alive. It may be a stranger by now; or, in a container
    // whose first process reaps nobody, the zombie of the server that was killed. Children that outlive their killed
    // postmaster still keep a new one out: it finds their shared memory by the directory's inode.
    await rm(lockFilePath(cluster), { force: true })
    await rm(join(cluster, `${socket}.lock`), { force: true })
  }
  return clearing
}

async function stopOrphan(
  cluster: string,
  socket: string,
  { note, patienceMs = Number.POSITIVE_INFINITY }: ClearOptions,
): Promise<Clearing> {
  const lock = await readLockFile(cluster)
  if (lock === undefined) return 'clear'
  if (!(await isPostgresOn(cluster, lock.pid))) {
    return lock.socketDirectory && (await keepsAnswering(join(lock.socketDirectory, socket))) ? 'elsewhere' : 'clear'
  }

  note(`Stopping the PostgreSQL (pid ${lock.pid}) that a killed Keyhook left behind.`)
  const begin = Date.now()
  let sent: NodeJS.Signals | undefined
  while (await isPostgresOn(cluster, lock.pid)) {
    const waitedMs = Date.now() - begin
    if (waitedMs > stopMsMax) {
      throw new Error(
        `PostgreSQL (pid ${lock.pid}) still runs on ${cluster} and did not stop within ${stopMsMax / 1000} seconds ` +
          `of a ${sent}: see what it is busy with, end it, and start again.`,
      )
    }
    const wanted = waitedMs < patienceMs ? 'SIGINT' : 'SIGQUIT'
    if (sent !== wanted) signal(lock.pid, wanted)
    sent = wanted
    await sleep(10)
  }
  // Its private socket directory, if it had one. Only rmdir: the path comes from a file that root does not control.
  if (lock.socketDirectory && lock.socketDirectory !== cluster) await rmdir(lock.socketDirectory).catch(() => {})
  return 'clear'
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    // Already gone is what we want.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** More than once: a process that is being torn down loses its name a moment before its sockets. */
async function keepsAnswering(path: string): Promise<boolean> {
  for (let asked = 0; asked < answersMin; asked++) {
    if (!(await answers(path))) return false
    await sleep(100)
  }
  return true
}

function answers(path: string): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect({ path }, () => {
      socket.destroy()
      done(true)
    })
    socket.on('error', () => done(false))
  })
}
