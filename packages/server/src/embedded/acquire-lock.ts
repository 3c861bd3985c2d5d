import { stat } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  askLockHolder,
  type Directory,
  type DirectoryLock,
  type LockHolder,
  lockAddress,
  type Purpose,
  tryLock,
} from './data-directory-lock.ts'

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
