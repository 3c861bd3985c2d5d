import { type ChildProcess, execFile, type StdioOptions, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { constants, setPriority } from 'node:os'
import { promisify } from 'node:util'
import { type Account, isRoot } from './account.ts'

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
  // With the programs that a tool has started itself, as initdb does: they would go on writing files.
  for (const { pid } of running) if (pid !== undefined) signalProcess(-pid, 'SIGTERM')
}

export function signalProcess(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
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

/** What a server sees besides the system's programs, at the usual paths. `hidden` is covered if it is among those. */
export type View = { readable: readonly string[]; writable: readonly string[]; hidden: string }

/**
 * Runs in new user, mount, pid and IPC namespaces, as their root. Arguments: uid, gid, what is hidden, the number of readable
 * paths and these, the number of writable paths and these, and the program. Nothing of Keyhook is below /sys, so the new file
 * system is made there. A mount keeps the restrictions of its source, which have to be repeated where there are any.
 * The second user namespace has our own uid again, and no right to change these mounts.
 */
const script = `
set -e
uid=$1 gid=$2 hidden=$3
shift 3
new=/sys
mount --make-rprivate /
mount -t tmpfs -o mode=755,size=1m keyhook $new

place() {
  if [ -d "$1" ]; then
    mkdir -p "$new$1"
    mount --rbind "$1" "$new$1"
  else
    mkdir -p "$(dirname "$new$1")"
    : > "$new$1"
    mount --bind "$1" "$new$1"
  fi
}
read_only() {
  place "$1"
  mount -o remount,bind,ro "$new$1" 2> /dev/null || mount -o remount,bind,ro,nosuid,nodev "$new$1"
}

mkdir -p $new/tmp $new/proc $new/dev/shm $new/old
mount -t tmpfs -o mode=1777 keyhook $new/tmp
mount -t tmpfs -o mode=1777 keyhook $new/dev/shm
mount -t proc -o nosuid,nodev,noexec proc $new/proc
for path in /usr /bin /sbin /lib /lib32 /lib64 /nix; do
  if [ -L $path ]; then cp -P $path $new$path; elif [ -d $path ]; then read_only $path; fi
done
for name in passwd group nsswitch.conf hosts resolv.conf localtime ld.so.cache; do
  if [ -e /etc/$name ]; then read_only /etc/$name; fi
done
for name in null zero random urandom; do place /dev/$name; done
if [ -d "$new$hidden" ]; then mount -t tmpfs -o mode=755,size=1m keyhook "$new$hidden"; fi

count=$1
shift
while [ "$count" -gt 0 ]; do read_only "$1"; shift; count=$((count - 1)); done
count=$1
shift
while [ "$count" -gt 0 ]; do place "$1"; shift; count=$((count - 1)); done

cd $new
pivot_root . old
umount -l /old
rmdir /old
mount -o remount,bind,ro /
exec unshare --user --map-user="$uid" --map-group="$gid" -- "$@"
`

/** What is put in front of a program. The program becomes the first process of its pid namespace. */
export function inNamespaces({ readable, writable, hidden }: View): string[] {
  const ids = [String(process.getuid?.()), String(process.getgid?.())]
  const places = [String(readable.length), ...readable, String(writable.length), ...writable]
  // --kill-child: the server ends with this process, which waits for it.
  const namespaces = ['--user', '--map-root-user', '--mount', '--pid', '--ipc', '--fork', '--kill-child']
  return ['unshare', ...namespaces, '--', 'sh', '-c', script, 'sh', ...ids, hidden, ...places]
}

let tried: Promise<string | null> | undefined

/** Null if this process can use namespaces, or else the reason why not. Tried once, with a program that does nothing. */
export function whyNoNamespaces(): Promise<string | null> {
  tried ??= tryNamespaces()
  return tried
}

async function tryNamespaces(): Promise<string | null> {
  if (process.platform !== 'linux') return 'they need Linux'
  if (isRoot()) return 'root uses user ids instead'
  const [command, ...rest] = inNamespaces({ readable: [], writable: [], hidden: '/nowhere' }) as [string, ...string[]]
  return promisify(execFile)(command, [...rest, 'true'], { cwd: '/', env: environment, timeout: 60_000 }).then(
    () => null,
    (error: { stderr?: string; message: string }) => (error.stderr?.trim() || error.message).split('\n').at(-1)!,
  )
}

/** The pid, outside of its namespace, of the program that runs behind `pid`. Undefined if it has ended. */
export function pidBehind(pid: number): number | undefined {
  try {
    const [first] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ')
    return Number(first) || undefined
  } catch {
    return undefined
  }
}

/** Of PostgreSQL and its tools. Not the caller's: PGDATA, LC_* or LD_PRELOAD would change what they do, and ours may hold the master key. */
const environment = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C', TZ: 'UTC' }
