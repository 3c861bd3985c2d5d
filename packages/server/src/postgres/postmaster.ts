import { readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Binaries } from './binaries.ts'
import { openSocketDirectory, port, readLockFile } from './lock-file.ts'
import { type LogFile, openLog } from './log-file.ts'
import { inNamespaces, pidBehind, type RunAs, signalProcess, startProgram, type View } from './start-program.ts'

const recoveryMsMax = 10 * 60_000
const noteAfterMs = 5_000
const oldChildrenMsMax = 15_000
const fastShutdownMsMax = 60_000

export type Postmaster = {
  pid: number | undefined
  socketDirectory: string
  /** Reads its settings, access rules and certificate again. Sessions go on. */
  reload(): void
  /** A fast shutdown; `immediate` does not wait for sessions, and the next start recovers. */
  stop(options?: { immediate?: boolean }): Promise<void>
}

export type StartOptions = RunAs & {
  dataDir: string
  cluster: string
  binaries: Binaries
  settings: Readonly<Record<string, string>>
  note: (text: string) => void
  onExit: (why: string) => void
  /** Stops a server that is still starting. */
  signal?: AbortSignal
}

/** Starts the server and returns when it accepts connections. */
export async function startPostmaster(options: StartOptions): Promise<Postmaster> {
  const deadline = Date.now() + oldChildrenMsMax
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
    if (ready) {
      const isBehind = options.view !== undefined
      return supervise(server, { socketDirectory: sockets.path, log, isBehind, close, onExit: options.onExit })
    }
    const ending = await server.ended
    const lastLines = await log.tail()
    // The children of a killed postmaster keep its shared memory until they notice, for less than a second.
    if (lastLines.includes('pre-existing shared memory block') && Date.now() < deadline) {
      await sleep(200)
      continue
    }
    await close()
    throw new Error(
      `PostgreSQL did not start on ${options.cluster} (${ending}). Its last lines, from ${log.path}:\n${lastLines}\n` +
        'Fix the reported cause and start again; the data has not been changed.',
    )
  }
}

type Server = {
  /** Undefined if it has ended. */
  pid(): number | undefined
  ended: Promise<string>
  hasEnded(): boolean
  signal(name: NodeJS.Signals): void
}

function launch(options: StartOptions, log: LogFile, sockets: string): Server {
  const { view, cluster, binaries } = options
  const args = serverArguments(cluster, sockets, options.settings)
  const namespaces = view ? inNamespaces(viewOf({ ...options, view }, sockets)) : []
  const runAs = { ...options, before: [...(options.before ?? []), ...namespaces] }
  const child = startProgram(binaries.postgres, args, runAs, { stdio: ['ignore', log.fd, log.fd] })
  let hasEnded = false
  const pid = () => (hasEnded || child.pid === undefined ? undefined : view ? pidBehind(child.pid) : child.pid)
  const signal = (name: NodeJS.Signals) => {
    // kill() of the handle never reaches another process that has got the same pid.
    if (!view) return void child.kill(name)
    const server = pid()
    if (server !== undefined) signalProcess(server, name)
  }
  // For a process.exit() without a stop: there is no time to wait, but the server must not go on running.
  const stopOnExit = () => signal('SIGINT')
  process.once('exit', stopOnExit)
  const ended = new Promise<string>((done) => {
    child.once('error', (error) => done(error.message))
    child.once('exit', (code, signal) => done(signal === null ? `exit code ${code}` : `ended by ${signal}`))
  }).finally(() => {
    hasEnded = true
    process.off('exit', stopOnExit)
  })
  if (child.pid !== undefined && !view) scheduleInBatch(child.pid)
  return { pid, ended, hasEnded: () => hasEnded, signal }
}

/** The server sees its programs, its cluster and its sockets, and what its caller adds. */
function viewOf({ view, cluster, binaries }: StartOptions & Required<Pick<RunAs, 'view'>>, sockets: string): View {
  const programs = dirname(dirname(binaries.postgres))
  return {
    readable: [programs, ...(view?.readable ?? [])],
    writable: [...new Set([cluster, sockets])],
    hidden: view?.hidden ?? '',
  }
}

/**
 * With batch scheduling a session that wakes up does not preempt the process that sent the statement: 10 % more deliveries on
 * two cores. Skipped if `chrt` is missing or not allowed, or if the operator has set another policy.
 */
function scheduleInBatch(pid: number): void {
  if (!hasDefaultScheduling()) return
  try {
    const chrt = startProgram(
      'chrt',
      ['--batch', '--pid', '0', String(pid)],
      { account: undefined },
      { stdio: 'ignore' },
    )
    chrt.once('error', () => {})
    chrt.unref()
  } catch {
    // Some errors are thrown and not emitted, such as no memory for another process.
  }
}

/** A child process inherits our scheduling policy. */
function hasDefaultScheduling(): boolean {
  try {
    const stat = readFileSync('/proc/self/stat', 'utf8')
    // The policy is field 41. The second field, a name in brackets, may contain spaces.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[38] === '0'
  } catch {
    return false
  }
}

async function untilReady({ cluster, note, signal }: StartOptions, server: Server): Promise<boolean> {
  const begin = Date.now()
  let noted = false
  while (!server.hasEnded()) {
    const lock = await readLockFile(cluster).catch(() => undefined)
    if (lock?.ready && lock.pid === server.pid()) return true
    const waitedMs = Date.now() - begin
    if (waitedMs > noteAfterMs && !noted) {
      noted = true
      note('PostgreSQL is still starting; after a crash it first replays its write-ahead log.')
    }
    if (waitedMs > recoveryMsMax) server.signal('SIGINT')
    if (signal?.aborted) server.signal('SIGQUIT')
    await Promise.race([sleep(5), server.ended])
  }
  return false
}

function supervise(
  server: Server,
  rest: {
    socketDirectory: string
    log: LogFile
    isBehind: boolean
    close(): Promise<void>
    onExit: (why: string) => void
  },
): Postmaster {
  let stopping: Promise<void> | undefined
  const pid = server.pid()
  // In namespaces the server is another process than the one that we started, and exists only now.
  if (rest.isBehind && pid !== undefined) scheduleInBatch(pid)
  void server.ended.then(async (ending) => {
    if (stopping !== undefined) return
    const lastLines = await rest.log.tail().catch(() => '')
    rest.onExit(`PostgreSQL (pid ${pid}) stopped by itself: ${ending}. Its last lines:\n${lastLines}`)
  })

  const stop = async () => {
    server.signal('SIGINT')
    // An immediate shutdown is safe and costs a recovery, in case the fast one does not end.
    const timer = setTimeout(() => server.signal('SIGQUIT'), fastShutdownMsMax)
    await server.ended
    clearTimeout(timer)
    await rest.close()
  }
  return {
    socketDirectory: rest.socketDirectory,
    pid,
    reload: () => server.signal('SIGHUP'),
    stop({ immediate = false } = {}) {
      stopping ??= stop()
      if (immediate) server.signal('SIGQUIT')
      return stopping
    },
  }
}

/** On the command line and not in postgresql.conf, so that a new version of Keyhook can change them. */
const defaults: Readonly<Record<string, string>> = {
  // No TCP: the socket is in a directory that only its owner can enter.
  listen_addresses: '',
  port: String(port),
  unix_socket_permissions: '0700',
  max_connections: '200',
  shared_buffers: '256MB',
  // Compiling a plan costs more than our short queries take.
  jit: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  // We open the file and limit its size. Failed statements are reported to us as errors; in this log their text could
  // reveal secrets, and bad requests could fill the disk.
  logging_collector: 'off',
  log_min_messages: 'log',
  log_min_error_statement: 'panic',
  log_error_verbosity: 'terse',
  log_checkpoints: 'off',
  log_line_prefix: '%m [%p] ',
  cluster_name: 'keyhook',
}

export function serverArguments(
  cluster: string,
  socketDirectory: string,
  extra: Readonly<Record<string, string>>,
): string[] {
  const settings = { ...defaults, unix_socket_directories: quoted(socketDirectory), ...extra }
  return ['-D', cluster, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])]
}

/** The setting is a list: without quotes a comma or a space in the path would split it. */
const quoted = (path: string): string => `"${path.replaceAll('"', '""')}"`
