import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Binaries } from './binaries.ts'
import { readLockFile } from './lock-file.ts'
import { type LogFile, openLog } from './log-file.ts'
import type { Account } from './reach.ts'
import { serverArguments } from './server-arguments.ts'
import { openSocketDirectory } from './socket-directory.ts'
import { spawnOptions } from './tool.ts'

const recoveryMsMax = 10 * 60_000
const patienceMs = 5_000
const leftoversMsMax = 15_000
const fastShutdownMsMax = 60_000

export type Postmaster = {
  socketDirectory: string
  /** In an orderly way; `atOnce`, whatever its sessions are at: the next start, if there is one, recovers. */
  stop(options?: { atOnce?: boolean }): Promise<void>
}

export type StartOptions = {
  dataDir: string
  cluster: string
  binaries: Binaries
  account: Account | undefined
  settings: Readonly<Record<string, string>>
  note: (text: string) => void
  onExit: (why: string) => void
  /** Not wanted any more: one that is still starting is ended at once. */
  signal?: AbortSignal
}

/** Starts the server and returns when it accepts connections. */
export async function startPostmaster(options: StartOptions): Promise<Postmaster> {
  const deadline = Date.now() + leftoversMsMax
  const sockets = await openSocketDirectory(options.cluster, options.account)
  const log = await openLog(options.dataDir).catch(async (error: unknown) => {
    await sockets.remove()
    throw error
  })
  const close = async () => {
    await log.close()
    await sockets.remove()
  }
  for (;;) {
    const server = launch(options, log, sockets.path)
    const ready = await untilReady(options, server)
    if (ready) return supervise(server, { socketDirectory: sockets.path, log, close, onExit: options.onExit })
    const ending = await server.ended
    const said = await log.tail()
    // The children of a postmaster that was killed hold its memory until they notice; that takes moments.
    if (said.includes('pre-existing shared memory block') && Date.now() < deadline) {
      await sleep(200)
      continue
    }
    await close()
    throw new Error(
      `PostgreSQL did not start on ${options.cluster} (${ending}). Its last words, from ${log.path}:\n${said}\n` +
        'Remove the cause that it names and start again; the data has not been touched.',
    )
  }
}

type Server = { child: ChildProcess; ended: Promise<string>; hasEnded(): boolean; signal(name: NodeJS.Signals): void }

function launch({ binaries, cluster, account, settings }: StartOptions, log: LogFile, sockets: string): Server {
  const child = spawn(binaries.postgres, serverArguments(cluster, sockets, settings), {
    ...spawnOptions(account),
    stdio: ['ignore', log.fd, log.fd],
    // A session of its own: Ctrl-C in the terminal reaches only Keyhook, which stops PostgreSQL after everything else.
    detached: true,
  })
  // For a process.exit() that nobody cleaned up before: no time to wait, but the server must not be left running.
  const lastResort = () => void child.kill('SIGINT')
  process.once('exit', lastResort)
  let over = false
  const ended = new Promise<string>((done) => {
    child.once('error', (error) => done(error.message))
    child.once('exit', (code, signal) => done(signal === null ? `exit code ${code}` : `ended by ${signal}`))
  }).finally(() => {
    over = true
    process.off('exit', lastResort)
  })
  if (child.pid !== undefined) scheduleInBatch(child.pid)
  // kill() answers false for a process that is gone, and never reaches a stranger: the handle knows that it ended.
  return { child, ended, hasEnded: () => over, signal: (name) => void child.kill(name) }
}

/**
 * A session that is woken by a statement takes the processor from whoever sent it, in the middle of its next one; and so does a
 * customer's database. Scheduled in batch it waits for its turn, which on two processors delivers a tenth more. Where there is no
 * such program, or it may not, or somebody has chosen how we are scheduled, everything goes on as it was.
 */
function scheduleInBatch(pid: number): void {
  if (!isScheduledAsUsual()) return
  try {
    const chrt = spawn('chrt', ['--batch', '--pid', '0', String(pid)], { ...spawnOptions(undefined), stdio: 'ignore' })
    chrt.once('error', () => {})
    chrt.unref()
  } catch {
    // Not all that can go wrong is said in an event: some of it, such as no memory for another process, is thrown.
  }
}

/** PostgreSQL is scheduled as we are, unless it is told otherwise. */
function isScheduledAsUsual(): boolean {
  try {
    const stat = readFileSync('/proc/self/stat', 'utf8')
    // The policy: of 52 fields the 41st. The name in brackets, the second, may hold anything.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[38] === '0'
  } catch {
    return false
  }
}

async function untilReady({ cluster, note, signal }: StartOptions, server: Server): Promise<boolean> {
  const begin = Date.now()
  let told = false
  while (!server.hasEnded()) {
    const lock = await readLockFile(cluster).catch(() => undefined)
    if (lock?.ready && lock.pid === server.child.pid) return true
    const waitedMs = Date.now() - begin
    if (waitedMs > patienceMs && !told) {
      told = true
      note('PostgreSQL is still starting; after a crash it first replays its log.')
    }
    if (waitedMs > recoveryMsMax) server.signal('SIGINT')
    if (signal?.aborted) server.signal('SIGQUIT')
    await Promise.race([sleep(5), server.ended])
  }
  return false
}

function supervise(
  server: Server,
  rest: { socketDirectory: string; log: LogFile; close(): Promise<void>; onExit: (why: string) => void },
): Postmaster {
  let stopping: Promise<void> | undefined
  void server.ended.then(async (ending) => {
    if (stopping !== undefined) return
    const said = await rest.log.tail().catch(() => '')
    rest.onExit(`PostgreSQL (pid ${server.child.pid}) stopped by itself: ${ending}. Its last words:\n${said}`)
  })

  const stop = async () => {
    server.signal('SIGINT')
    // An immediate shutdown, which is safe and costs a recovery, in case a fast one gets stuck.
    const impatience = setTimeout(() => server.signal('SIGQUIT'), fastShutdownMsMax)
    await server.ended
    clearTimeout(impatience)
    await rest.close()
  }
  return {
    socketDirectory: rest.socketDirectory,
    stop({ atOnce = false } = {}) {
      stopping ??= stop()
      if (atOnce) server.signal('SIGQUIT')
      return stopping
    },
  }
}
