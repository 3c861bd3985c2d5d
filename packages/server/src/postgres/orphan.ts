import { readdir, readFile, readlink, rmdir, stat, unlink } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isPostgresOn, isPrivateSocketDirectory, lockFilePath, readLockFile, socketName } from './lock-file.ts'
import { runTool } from './start-program.ts'
import { processesOf } from './uids.ts'
import { NotAClusterFile } from './untrusted-files.ts'

const stopMsMax = 60_000
const answersMin = 20

/** 'elsewhere': a server answers on this cluster that is not a process here, for example in another container. */
export type OrphanState = 'stopped' | 'elsewhere'

type StopOptions = {
  note: (text: string) => void
  /** The name of its socket. */
  socket?: string
  /** How long a fast shutdown may take before an immediate one. Without it there is only the fast one. */
  fastShutdownMsMax?: number
}

/**
 * A Keyhook that was killed leaves its PostgreSQL running. The next process with the lock stops that server here.
 * It is never killed with SIGKILL: its children would go on writing beside the new server.
 */
export async function stopOrphan(cluster: string, options: StopOptions): Promise<OrphanState> {
  const socket = options.socket ?? socketName
  const state = await stopServer(cluster, socket, options)
  if (state === 'stopped') {
    // PostgreSQL checks only that the pid in its lock file is alive. By now that may be another program, or a zombie in a
    // container. Children of a killed postmaster still keep a new one out, by their shared memory.
    for (const path of [lockFilePath(cluster), join(cluster, `${socket}.lock`)]) await removeFile(path)
  }
  return state
}

async function removeFile(path: string): Promise<void> {
  await unlink(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EISDIR' || error.code === 'EPERM')
      throw new NotAClusterFile(`${path} is a directory`, { cause: error })
    if (error.code !== 'ENOENT') throw error
  })
}

async function stopServer(
  cluster: string,
  socket: string,
  { note, fastShutdownMsMax = Number.POSITIVE_INFINITY }: StopOptions,
): Promise<OrphanState> {
  const lock = await readLockFile(cluster)
  if (lock === undefined) return 'stopped'
  if (!(await isPostgresOn(cluster, lock.pid))) {
    return lock.socketDirectory && (await keepsAnswering(join(lock.socketDirectory, socket))) ? 'elsewhere' : 'stopped'
  }

  note(`Stopping the PostgreSQL (pid ${lock.pid}) that a killed Keyhook left behind.`)
  const begin = Date.now()
  let sent: NodeJS.Signals | undefined
  while (await isPostgresOn(cluster, lock.pid)) {
    const waitedMs = Date.now() - begin
    if (waitedMs > stopMsMax) {
      throw new Error(
        `PostgreSQL (pid ${lock.pid}) still runs on ${cluster} and did not stop within ${stopMsMax / 1000} seconds ` +
          `of a ${sent}: find out what it is waiting for, stop it, and start again.`,
      )
    }
    const wanted = waitedMs < fastShutdownMsMax ? 'SIGINT' : 'SIGQUIT'
    if (sent !== wanted) signal(lock.pid, wanted)
    sent = wanted
    await sleep(10)
  }
  // The path comes from a file that its account can write: root must not remove another directory because of it.
  if (lock.socketDirectory && isPrivateSocketDirectory(lock.socketDirectory))
    await rmdir(lock.socketDirectory).catch(() => {})
  return 'stopped'
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    // It has ended already.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** Asks several times: a process that is ending disappears from /proc shortly before its sockets close. */
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

/** Of PostgreSQL's lock in System V shared memory, which tells a new server that an old one still runs. */
const lockBytes = 56
const sharedMemory = '/dev/shm'
/** The kernel's fixed number for the first namespace of processes. */
const hostProcesses = 'pid:[4026531836]'

/**
 * Removes shared memory that servers and interrupted initdbs of an account left: PostgreSQL does so itself only if a server starts on the
 * same cluster again. Memory that is younger than `ageMsMin` may belong to a server that is just starting. Memory with statistics may be
 * mapped by no process of a server for a while: then its number is in a list, in memory that they all map.
 */
export async function removeDeadSegments(uid: number, ageMsMin = 10_000): Promise<void> {
  const isOld = (atMs: number) => Date.now() - atMs >= ageMsMin
  // Columns: key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime …
  const rows = (await readFile('/proc/sysvipc/shm', 'utf8').catch(() => '')).trim().split('\n').slice(1)
  for (const row of rows) {
    const [, id, , bytes, , , attached, owner, , , , , , changedSeconds = 0] = row.trim().split(/\s+/).map(Number)
    if (owner === uid && bytes === lockBytes && attached === 0 && isOld(changedSeconds * 1_000))
      await runTool('ipcrm', ['-m', String(id)], { account: undefined }).catch(() => {})
  }
  // In a container the processes of others are hidden, and its memory usually ends with it.
  if ((await readlink('/proc/self/ns/pid').catch(() => '')) !== hostProcesses) return
  const left: { path: string; handle: number; bytes: number; mtimeMs: number }[] = []
  for (const name of await readdir(sharedMemory).catch(() => [])) {
    const [, handle] = /^PostgreSQL\.(\d+)$/.exec(name) ?? []
    const path = join(sharedMemory, name)
    const found = handle && (await stat(path).catch(() => undefined))
    if (found && found.uid === uid)
      left.push({ path, handle: Number(handle), bytes: found.size, mtimeMs: found.mtimeMs })
  }
  if (!left.some(({ mtimeMs }) => isOld(mtimeMs))) return
  const maps = await Promise.all(
    (await processesOf(uid)).map((pid) => readFile(`/proc/${pid}/maps`, 'utf8').catch(() => '')),
  )
  const isMapped = (path: string) => maps.some((text) => text.includes(`${path}\n`))
  const mapped = left.filter(({ path }) => isMapped(path))
  const listings = await Promise.all(
    mapped.filter(({ bytes }) => bytes <= listingBytesMax).map(({ path }) => readFile(path).catch(() => null)),
  )
  if (listings.includes(null)) return
  const isListed = (handle: number) => listings.some((listing) => listing!.includes(littleEndian(handle)))
  for (const one of left) {
    if (isOld(one.mtimeMs) && !mapped.includes(one) && !isListed(one.handle)) await unlink(one.path).catch(() => {})
  }
}

/** Of the list of a server's memory, whatever its limit of connections. */
const listingBytesMax = 4_194_304

function littleEndian(handle: number): Buffer {
  const bytes = Buffer.alloc(4)
  // Anything may have a name like PostgreSQL's: a larger number must not end the start.
  bytes.writeUInt32LE(handle >>> 0)
  return bytes
}
