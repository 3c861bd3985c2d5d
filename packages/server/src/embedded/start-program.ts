import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { environment } from './environment.ts'
import type { View } from './namespaces.ts'
import type { Account } from './permissions.ts'

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
