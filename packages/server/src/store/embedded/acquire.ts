import { setTimeout as sleep } from 'node:timers/promises'
import { askHolder, type Hold, type Holder, holdAddress, type Purpose, tryHold } from './hold.ts'

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
  const deadline = Date.now() + waitMsMax
  let told = false
  for (;;) {
    const hold = await tryHold(address, options.purpose)
    if (hold) return { kind: 'held', hold }
    const holder = await askHolder(address)
    if (holder !== 'gone') {
      const next = decide(options.purpose, holder)
      if (next === 'share') return { kind: 'shared' }
      if (next === 'refuse' || Date.now() > deadline) throw new DataDirectoryInUse(inUse(options.dataDir, holder))
      if (!told) options.note(`Waiting for ${describe(holder)} to ${waitsFor(holder)}.`)
      told = true
    }
    await sleep(pauseMs)
  }
}

export function decide(purpose: Purpose, holder: Holder | 'silent'): 'share' | 'refuse' | 'wait' {
  if (holder === 'silent' || holder.purpose === 'command') return 'wait'
  if (purpose === 'serve') return 'refuse'
  return holder.ready ? 'share' : 'wait'
}

export const inUse = (dataDir: string, holder: Holder | 'silent'): string =>
  `The data directory ${dataDir} is in use by ${describe(holder)}: stop that process first, or give this one another ` +
  'data directory (KEYHOOK_DATA_DIR).'

function describe(holder: Holder | 'silent'): string {
  if (holder === 'silent') return 'another Keyhook that does not answer'
  const kind = holder.purpose === 'serve' ? 'a Keyhook server' : 'a Keyhook command'
  const facts = [`pid ${holder.pid}`, `since ${holder.since}`, ...(holder.url === null ? [] : [`at ${holder.url}`])]
  return `${kind} (${facts.join(', ')})`
}

const waitsFor = (holder: Holder | 'silent'): string =>
  holder !== 'silent' && holder.purpose === 'serve' ? 'be ready' : 'finish'
