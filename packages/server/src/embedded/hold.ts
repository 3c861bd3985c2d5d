import { mkdir, rm, rmdir, stat } from 'node:fs/promises'
import { connect, createServer } from 'node:net'

export type Purpose = 'serve' | 'command'
/** Where a holder works. `place` tells a copy from the original, and is the same by whatever path somebody comes. */
export type Directory = { path: string; place: string }
/** What a holder tells whoever asks. `socketDirectory` is there once PostgreSQL accepts connections. */
export type Holder = {
  pid: number
  purpose: Purpose
  since: string
  url: string | null
  ready: boolean
  socketDirectory: string | null
  directory: Directory | null
}
export type Hold = { update(change: Partial<Holder>): void; release(): Promise<void> }

const answerMsMax = 2_000
const answerBytesMax = 8_192

/**
 * A listening socket is the lock, because the kernel takes it back however the process ends: nothing is ever stale. Linux
 * has names outside the file system for this. Elsewhere it is a file, in /tmp because such paths must be short.
 */
export const holdAddress = (name: string): string =>
  process.platform === 'linux' ? `\0keyhook-${name}` : `/tmp/keyhook-${name}.sock`

/** Undefined when somebody else holds it. */
export async function tryHold(
  address: string,
  purpose: Purpose,
  directory: Directory | null = null,
): Promise<Hold | undefined> {
  let state: Holder = {
    pid: process.pid,
    purpose,
    since: new Date().toISOString(),
    url: null,
    ready: false,
    socketDirectory: null,
    directory,
  }
  const server = createServer((socket) => {
    // Whoever asks may hang up before the answer; that is no concern of the holder.
    socket.on('error', () => {})
    // Destroyed and not left to the other side, or one that never hangs up could keep the hold from being released.
    socket.end(`${JSON.stringify(state)}\n`, () => socket.destroy())
  })
  const listen = () =>
    new Promise<boolean>((done, fail) => {
      server.once('error', (error: NodeJS.ErrnoException) => (error.code === 'EADDRINUSE' ? done(false) : fail(error)))
      server.listen({ path: address }, () => done(true))
    })
  const held = (await listen()) || (await takeDeadFile(address, listen))
  if (!held) return undefined
  // Holding alone is no reason to stay alive: whoever holds has work of its own.
  server.unref()
  server.on('error', () => {})

  return {
    update(change) {
      state = { ...state, ...change }
    },
    release: () => new Promise((done) => server.close(() => done())),
  }
}

/** 'gone' when nobody holds it (any more), 'silent' when somebody does but gives no answer that we understand. */
export function askHolder(address: string): Promise<Holder | 'gone' | 'silent'> {
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

function parseHolder(answer: string): Holder | undefined {
  try {
    const holder = JSON.parse(answer) as Holder
    return typeof holder.pid === 'number' && ['serve', 'command'].includes(holder.purpose) ? holder : undefined
  } catch {
    return undefined
  }
}

/** A guard that is older than this was left by a process that died with it: what it guards takes milliseconds. */
const guardMsMax = 10_000

/**
 * Takes the place of a dead process, whose socket file is still there. Only one at a time may try: while the file is there
 * nobody can listen, and only whoever has the guard removes it, so a living socket is never removed.
 */
async function takeDeadFile(address: string, listen: () => Promise<boolean>): Promise<boolean> {
  if (address.startsWith('\0')) return false
  const guard = `${address}.guard`
  if (!(await takeGuard(guard))) return false
  try {
    if ((await askHolder(address)) !== 'gone') return false
    await rm(address, { force: true })
    return await listen()
  } finally {
    await rmdir(guard).catch(() => {})
  }
}

async function takeGuard(guard: string): Promise<boolean> {
  const made = () =>
    mkdir(guard).then(
      () => true,
      () => false,
    )
  if (await made()) return true
  const found = await stat(guard).catch(() => null)
  if (found !== null && Date.now() - found.mtimeMs < guardMsMax) return false
  await rmdir(guard).catch(() => {})
  return made()
}
