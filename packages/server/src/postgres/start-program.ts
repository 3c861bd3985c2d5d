import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { constants, setPriority } from 'node:os'
import type { Account } from './account.ts'
import { environment, type View } from './namespaces.ts'

/** Who a program runs as, and what limits it. One value per cluster: its server and every tool on its files get the same. */
export type RunAs = {
  /** Undefined: our own. */
  account: Account | undefined
  /** Programs that are put in front and execute the rest, such as `['prlimit', '--nproc=100', '--']`. They run as the account. */
  before?: readonly string[] | undefined
  /** Where namespaces separate the servers of one user: what this one may read, and what is hidden from it. */
  view?: Pick<View, 'readable' | 'hidden'> | undefined
  /** Called when the process exists, for example to move it to a cgroup. */
  onStart?: ((pid: number) => void) | undefined
}

/**
 * The only place that starts PostgreSQL and the tools that work on its files. They get no environment, no descriptor and no
 * working directory of ours.
 */
export function startProgram(
  program: string,
  args: readonly string[],
  { account, before = [], onStart }: RunAs,
  options: { stdio: StdioOptions; signal?: AbortSignal | undefined },
): ChildProcess {
  const [command, ...rest] = [...before, program, ...args] as [string, ...string[]]
  const child = spawn(command, rest, {
    // PostgreSQL's tools read their working directory, and the account may not have access to ours.
    cwd: '/',
    env: environment,
    ...(account && { uid: account.uid, gid: account.gid }),
    stdio: options.stdio,
    // Its own session: Ctrl-C in the terminal reaches only Keyhook, which ends its programs itself.
    detached: true,
    ...(options.signal && { signal: options.signal }),
  })
  if (child.pid !== undefined) onStart?.(child.pid)
  return child
}

const linesMax = 15

export type ToolOptions = RunAs & {
  /** Ends the program early, which counts as a failure. */
  signal?: AbortSignal | undefined
  lowPriority?: boolean | undefined
}

/** Runs one of PostgreSQL's programs to its end. A failure carries the last lines it wrote. */
export function runTool(
  program: string,
  args: readonly string[],
  options: ToolOptions & { input?: string },
): Promise<void> {
  return new Promise((done, fail) => {
    const child = startProgram(program, args, options, { stdio: ['pipe', 'ignore', 'pipe'], signal: options.signal })
    child.on('error', (cause) => fail(new Error(`${program} cannot be run: ${cause.message}`, { cause })))
    // Without free file descriptors there are no streams, whatever the types say. The 'error' event follows.
    if (!child.stdin || !child.stderr) return
    endOnExit(child)
    if (options.lowPriority && child.pid !== undefined) setLowPriority(child.pid)
    let errors = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      errors = (errors + text).slice(-16_384)
    })
    // A program that ends early closes its input; its exit code is what counts.
    child.stdin.on('error', () => {})
    child.stdin.end(options.input ?? '')
    child.on('close', (code, signal) => {
      if (code === 0) return done()
      fail(new Error(`${program} ended with ${signal ?? `code ${code}`}:\n${lastLines(errors)}`))
    })
  })
}

const running = new Set<ChildProcess>()

/** One exit listener for all programs, because many may run at once. */
function endOnExit(child: ChildProcess): void {
  if (running.size === 0) process.once('exit', endAll)
  running.add(child)
  child.once('close', () => {
    running.delete(child)
    if (running.size === 0) process.off('exit', endAll)
  })
}

function endAll(): void {
  for (const { pid } of running) if (pid !== undefined) endGroup(pid)
}

/** Includes the programs that it started itself, as initdb does; they would go on writing files. */
function endGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGTERM')
  } catch {
    // It has ended already.
  }
}

function setLowPriority(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_BELOW_NORMAL)
  } catch {
    // It has ended already, or the system does not support it.
  }
}

export const lastLines = (text: string): string => text.trimEnd().split('\n').slice(-linesMax).join('\n')
