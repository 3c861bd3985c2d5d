import { stat } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { askHolder, type Directory, type Hold, type Holder, holdAddress, type Purpose, tryHold } from './hold.ts'

const waitMsMax = 30_000
const pauseMs = 50

/** The message says who holds the directory and what to do about it; there is nothing more to add for the operator. */
export class DataDirectoryInUse extends Error {
  override readonly name = 'DataDirectoryInUse'
}

type Acquired = { kind: 'held'; hold: Hold } | { kind: 'shared' }

/** Takes the data directory, waits for whoever has it briefly, or finds a server there to share. */
export async function acquire(options: {
  dataDir: string
  name: string
  purpose: Purpose
  note: (text: string) => void
}): Promise<Acquired> {
  const address = holdAddress(options.name)
  const directory = await directoryAt(options.dataDir)
  const deadline = Date.now() + waitMsMax
  let told = false
  for (;;) {
    const hold = await tryHold(address, options.purpose, directory)
    if (hold) return { kind: 'held', hold }
    const holder = await askHolder(address)
    if (holder !== 'gone') {
      const original = originalOf(directory, holder)
      if (original !== null) throw new DataDirectoryInUse(isCopy(directory.path, original, holder))
      const next = decide(options.purpose, holder)
      if (next === 'share') return { kind: 'shared' }
      if (next === 'refuse' || Date.now() > deadline) throw new DataDirectoryInUse(inUse(options.dataDir, holder))
      if (!told) options.note(`Waiting for ${describe(holder)} to ${waitsFor(holder)}.`)
      told = true
    }
    await sleep(pauseMs)
  }
}

/** By its inode, which a directory keeps when it is moved or mounted elsewhere, and never shares with a copy. */
async function directoryAt(path: string): Promise<Directory> {
  const { dev, ino } = await stat(path, { bigint: true })
  return { path, place: `${dev}:${ino}` }
}

/**
 * A copy goes by the name of its original: a command would be lent the server of the original and change that one, and a
 * server would be told that the copy is in use, which it is not.
 */
function originalOf(ours: Directory, holder: Holder | 'silent'): string | null {
  // A holder of an earlier version does not say where it works.
  if (holder === 'silent' || !holder.directory) return null
  return holder.directory.place === ours.place ? null : holder.directory.path
}

const isCopy = (dataDir: string, original: string, holder: Holder | 'silent'): string =>
  `The data directory ${dataDir} is a copy of ${original}, which is in use by ${describe(holder)}. Only one of them can ` +
  `run at a time: stop that process first; or, if you mean that one, set KEYHOOK_DATA_DIR to ${original}.`

export function decide(purpose: Purpose, holder: Holder | 'silent'): 'share' | 'refuse' | 'wait' {
  if (holder === 'silent' || holder.purpose === 'command') return 'wait'
  if (purpose === 'serve') return 'refuse'
  return holder.ready ? 'share' : 'wait'
}

export const inUse = (dataDir: string, holder: Holder | 'silent'): string =>
  `The data directory ${dataDir} is in use by ${describe(holder)}: stop that process first, or give this one a data ` +
  'directory of its own (KEYHOOK_DATA_DIR). To work on one installation, both need DATABASE_URL as well.'

function describe(holder: Holder | 'silent'): string {
  if (holder === 'silent') return 'another Keyhook that does not answer'
  const kind = holder.purpose === 'serve' ? 'a Keyhook server' : 'a Keyhook command'
  const facts = [`pid ${holder.pid}`, `since ${holder.since}`, ...(holder.url === null ? [] : [`at ${holder.url}`])]
  return `${kind} (${facts.join(', ')})`
}

const waitsFor = (holder: Holder | 'silent'): string =>
  holder !== 'silent' && holder.purpose === 'serve' ? 'be ready' : 'finish'
