import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { isRoot } from './account.ts'

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
export const environment = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C', TZ: 'UTC' }
