import { randomBytes } from 'node:crypto'
import { rename, rm } from 'node:fs/promises'
import { connect, createServer } from 'node:net'

export type Purpose = 'serve' | 'command'
/** What a holder tells whoever asks. `socketDirectory` is there once PostgreSQL accepts connections. */
export type Holder = {
  pid: number
  purpose: Purpose
  since: string
  url: string | null
  ready: boolean
  socketDirectory: string | null
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
export async function tryHold(address: string, purpose: Purpose): Promise<Hold | undefined> {
  let state: Holder = {
    pid: process.pid,
    purpose,
    since: new Date().toISOString(),
    url: null,
    ready: false,
    socketDirectory: null,
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
  const held = (await listen()) || ((await clearDeadFile(address)) && (await listen()))
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

/**
 * Removes the socket file of a dead process. It is moved aside and asked there once more, because between our first
 * question and the removal another process may have put a living socket in its place.
 */
async function clearDeadFile(address: string): Promise<boolean> {
  if (address.startsWith('\0') || (await askHolder(address)) !== 'gone') return false
  const aside = `${address}.${randomBytes(4).toString('hex')}`
  if (
    !(await rename(address, aside).then(
      () => true,
      () => false,
    ))
  )
    return true
  if ((await askHolder(aside)) === 'gone') {
    await rm(aside, { force: true })
    return true
  }
  await rename(aside, address)
  return false
}
