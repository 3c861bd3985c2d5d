import { mkdir, rm, rmdir, stat } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export type Purpose = 'serve' | 'command'
/** `inode` tells a copy from the original, and stays the same whichever path is used. */
export type Directory = { path: string; inode: string }
/** What the holder of a lock answers. `socketDirectory` is set once PostgreSQL accepts connections. */
export type LockHolder = {
  pid: number
  purpose: Purpose
  since: string
  url: string | null
  ready: boolean
  socketDirectory: string | null
  directory: Directory | null
}
export type DirectoryLock = { update(change: Partial<LockHolder>): void; release(): Promise<void> }

const answerMsMax = 2_000
const answerBytesMax = 8_192

/**
 * A listening socket is the lock, because the kernel releases it however the process ends. Linux has abstract names for
 * this. Elsewhere it is a file, in /tmp because such paths must be short.
 */
const lockAddress = (name: string): string =>
  process.platform === 'linux' ? `\0keyhook-${name}` : `/tmp/keyhook-${name}.sock`

/** Undefined if another process has the lock. */
export async function tryLock(
  address: string,
  purpose: Purpose,
  directory: Directory | null = null,
): Promise<DirectoryLock | undefined> {
  let state: LockHolder = {
    pid: process.pid,
    purpose,
    since: new Date().toISOString(),
    url: null,
    ready: false,
    socketDirectory: null,
    directory,
  }
  const server = createServer((socket) => {
    socket.on('error', () => {})
    // Destroyed by us: a client that never hangs up would keep the lock from being released.
    socket.end(`${JSON.stringify(state)}\n`, () => socket.destroy())
  })
  const listen = () =>
    new Promise<boolean>((done, fail) => {
      server.once('error', (error: NodeJS.ErrnoException) => (error.code === 'EADDRINUSE' ? done(false) : fail(error)))
      server.listen({ path: address }, () => done(true))
    })
  const locked = (await listen()) || (await replaceDeadSocket(address, listen))
  if (!locked) return undefined
  // The lock alone does not keep the process alive.
  server.unref()
  server.on('error', () => {})

  return {
    update(change) {
      state = { ...state, ...change }
    },
    release: () => new Promise((done) => server.close(() => done())),
  }
}

/** 'gone' if no process has the lock (any more), 'silent' if one has it but gives no answer that we understand. */
export function askLockHolder(address: string): Promise<LockHolder | 'gone' | 'silent'> {
  return new Promise((done) => {
    let answer = ''
    const socket = connect({ path: address })
    socket.setTimeout(answerMsMax, () => socket.destroy())
    socket.setEncoding('utf8')
    socket.on('data', (text: string) => {
      answer += text
      if (answer.length > answerBytesMax) socket.destroy()
    })
    socket.on('error', ({ code }: NodeJS.ErrnoException) => {
      if (code === 'ECONNREFUSED' || code === 'ENOENT') done('gone')
    })
    socket.on('close', () => done(parseHolder(answer) ?? 'silent'))
  })
}

function parseHolder(answer: string): LockHolder | undefined {
  try {
    const holder = JSON.parse(answer) as LockHolder
    return typeof holder.pid === 'number' && ['serve', 'command'].includes(holder.purpose) ? holder : undefined
  } catch {
    return undefined
  }
}

/** What the guard protects takes milliseconds, so an older guard was left by a process that died. */
const guardMsMax = 10_000

/**
 * Replaces the socket file of a dead process. One process at a time: while the file exists none can listen, and only the
 * owner of the guard removes it, so the socket of a living process is never removed.
 */
async function replaceDeadSocket(address: string, listen: () => Promise<boolean>): Promise<boolean> {
  if (address.startsWith('\0')) return false
  const guard = `${address}.guard`
  if (!(await takeGuard(guard))) return false
  try {
    if ((await askLockHolder(address)) !== 'gone') return false
    await rm(address, { force: true })
    return await listen()
  } finally {
    await rmdir(guard).catch(() => {})
  }
}

async function takeGuard(guard: string): Promise<boolean> {
  const create = () =>
    mkdir(guard).then(
      () => true,
      () => false,
    )
  if (await create()) return true
  const found = await stat(guard).catch(() => null)
  if (found !== null && Date.now() - found.mtimeMs < guardMsMax) return false
  await rmdir(guard).catch(() => {})
  return create()
}

const waitMsMax = 30_000
const pauseMs = 50

/** The message names the process that uses the directory and says what to do. */
export class DataDirectoryInUse extends Error {
  override readonly name = 'DataDirectoryInUse'
}

type Acquired = { kind: 'locked'; lock: DirectoryLock } | { kind: 'shared' }

/** Locks the data directory, waits for a process that has it only briefly, or finds a server there to share. */
export async function acquireLock(options: {
  dataDir: string
  name: string
  purpose: Purpose
  note: (text: string) => void
}): Promise<Acquired> {
  const address = lockAddress(options.name)
  const directory = await directoryAt(options.dataDir)
  const deadline = Date.now() + waitMsMax
  let noted = false
  for (;;) {
    const lock = await tryLock(address, options.purpose, directory)
    if (lock) return { kind: 'locked', lock }
    const holder = await askLockHolder(address)
    if (holder !== 'gone') {
      const original = originalOf(directory, holder)
      if (original !== null) throw new DataDirectoryInUse(isCopy(directory.path, original, holder))
      const next = decide(options.purpose, holder)
      if (next === 'share') return { kind: 'shared' }
      if (next === 'reject' || Date.now() > deadline) throw new DataDirectoryInUse(inUse(options.dataDir, holder))
      if (!noted) options.note(`Waiting for ${describe(holder)} to ${waitsFor(holder)}.`)
      noted = true
    }
    await sleep(pauseMs)
  }
}

/** By its inode, which a directory keeps when it is moved or mounted elsewhere, and never shares with a copy. */
async function directoryAt(path: string): Promise<Directory> {
  const { dev, ino } = await stat(path, { bigint: true })
  return { path, inode: `${dev}:${ino}` }
}

/**
 * A copy has the same id as its original: without this check a command on the copy would change the original's data, and
 * a server would report that the copy is in use.
 */
function originalOf(ours: Directory, holder: LockHolder | 'silent'): string | null {
  if (holder === 'silent' || !holder.directory) return null
  return holder.directory.inode === ours.inode ? null : holder.directory.path
}

const isCopy = (dataDir: string, original: string, holder: LockHolder | 'silent'): string =>
  `The data directory ${dataDir} is a copy of ${original}, which is in use by ${describe(holder)}. Only one of them can ` +
  `run at a time: stop that process first; or, if you mean that one, set KEYHOOK_DATA_DIR to ${original}.`

export function decide(purpose: Purpose, holder: LockHolder | 'silent'): 'share' | 'reject' | 'wait' {
  if (holder === 'silent' || holder.purpose === 'command') return 'wait'
  if (purpose === 'serve') return 'reject'
  return holder.ready ? 'share' : 'wait'
}

export const inUse = (dataDir: string, holder: LockHolder | 'silent'): string =>
  `The data directory ${dataDir} is in use by ${describe(holder)}: stop that process first, or give this one a data ` +
  'directory of its own (KEYHOOK_DATA_DIR). To work on one installation, both need DATABASE_URL as well.'

function describe(holder: LockHolder | 'silent'): string {
  if (holder === 'silent') return 'another Keyhook that does not answer'
  const kind = holder.purpose === 'serve' ? 'a Keyhook server' : 'a Keyhook command'
  const facts = [`pid ${holder.pid}`, `since ${holder.since}`, ...(holder.url === null ? [] : [`at ${holder.url}`])]
  return `${kind} (${facts.join(', ')})`
}

const waitsFor = (holder: LockHolder | 'silent'): string =>
  holder !== 'silent' && holder.purpose === 'serve' ? 'be ready' : 'finish'
