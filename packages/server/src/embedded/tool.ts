import { type ChildProcess, spawn } from 'node:child_process'
import { constants, setPriority } from 'node:os'
import type { Account } from './reach.ts'

const linesMax = 15

/** Nothing of the caller's environment: PGDATA, LC_* or LD_PRELOAD would change what the server does. */
const environment = { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' }

export const spawnOptions = (account: Account | undefined) => ({
  // Not our own working directory: PostgreSQL's tools insist on reading it, and the account may not be able to.
  cwd: '/',
  env: environment,
  ...(account && { uid: account.uid, gid: account.gid }),
})

export type ToolOptions = {
  account: Account | undefined
  /** Ends the program early, which is then a failure. */
  signal?: AbortSignal | undefined
  /** Leaves the processor to others: nobody is waiting for it yet. */
  unhurried?: boolean | undefined
}

/** Runs one of PostgreSQL's programs to its end. A failure carries the last lines it wrote. */
export function runTool(
  program: string,
  args: readonly string[],
  options: ToolOptions & { input?: string },
): Promise<void> {
  return new Promise((done, fail) => {
    const child = spawn(program, args, {
      ...spawnOptions(options.account),
      stdio: ['pipe', 'ignore', 'pipe'],
      // A session of its own: Ctrl-C in the terminal reaches only Keyhook, and not half of what it has under way.
      detached: true,
      ...(options.signal && { signal: options.signal }),
    })
    child.on('error', (cause) => fail(new Error(`${program} cannot be run: ${cause.message}`, { cause })))
    // Without a file free for them there are no streams, whatever the types say. The error follows.
    if (child.stdin === undefined) return
    endWithUs(child)
    if (options.unhurried && child.pid !== undefined) yieldToOthers(child.pid)
    let errors = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      errors = (errors + text).slice(-16_384)
    })
    // A program that dies early closes its input; its exit says why.
    child.stdin.on('error', () => {})
    child.stdin.end(options.input ?? '')
    child.on('close', (code, signal) => {
      if (code === 0) return done()
      fail(new Error(`${program} ended with ${signal ?? `code ${code}`}:\n${lastLines(errors)}`))
    })
  })
}

const running = new Set<ChildProcess>()

/** One listener for all of them: there may be many at a time. */
function endWithUs(child: ChildProcess): void {
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

/** With the programs that it runs itself, as initdb does: they would go on for a moment, and leave what it tidies up. */
function endGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGTERM')
  } catch {
    // It has ended already.
  }
}

function yieldToOthers(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_BELOW_NORMAL)
  } catch {
    // It has ended already, or the system has no such thing.
  }
}

export const lastLines = (text: string): string => text.trimEnd().split('\n').slice(-linesMax).join('\n')
