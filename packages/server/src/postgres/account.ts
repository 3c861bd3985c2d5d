import { execFile } from 'node:child_process'
import { lstat, readFile, realpath, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

const name = 'keyhook'
const createAttemptsMax = 20

export const isRoot = (): boolean => process.getuid?.() === 0

/**
 * The account that PostgreSQL runs as; undefined means our own. PostgreSQL does not run as root, so root uses another one:
 * the owner of the cluster, or else a system user named keyhook.
 */
export async function accountFor(clusterOwner: Account | undefined): Promise<Account | undefined> {
  if (!isRoot()) return undefined
  if (clusterOwner !== undefined && clusterOwner.uid !== 0) return clusterOwner
  return (await findAccount()) ?? (await createAccount())
}

export function parseAccount(passwd: string, wanted: string): Account | undefined {
  for (const line of passwd.split('\n')) {
    const [user, , uid, gid] = line.split(':')
    if (user === wanted && uid && gid) return { uid: Number(uid), gid: Number(gid) }
  }
  return undefined
}

async function findAccount(): Promise<Account | undefined> {
  const account = parseAccount(await readFile('/etc/passwd', 'utf8').catch(() => ''), name)
  if (account?.uid === 0)
    throw new MachineUnfit(`The user ${name} is root under another name; PostgreSQL refuses to run as root.`)
  return account
}

/**
 * `useradd` looks for the name before it locks /etc/passwd, so of two that run at once the second replaces the entry of the first, with
 * another uid. The lock is of the file and not of this process: other processes respect it, and a `useradd` that outlives us keeps it.
 */
const createOnce = `
umask 077
exec 9>> /run/keyhook-account.lock
flock 9
grep -q '^${name}:' /etc/passwd || exec useradd --system --user-group --no-create-home --shell /usr/sbin/nologin ${name}`

async function createAccount(): Promise<Account> {
  // A root shell made by plain `su` has no sbin in its PATH.
  const env = { PATH: `${process.env.PATH ?? ''}:/usr/sbin:/sbin:/usr/bin:/bin` }
  for (let attempt = 1; ; attempt++) {
    const problem = await promisify(execFile)('sh', ['-c', createOnce, 'keyhook'], { env }).then(
      () => undefined,
      (error: { stderr?: string; message: string }) => error.stderr?.trim() || error.message,
    )
    const account = await findAccount()
    if (account !== undefined) return account
    // Another program may have locked /etc/passwd. Any other reason is permanent.
    if (attempt === createAttemptsMax || !/cannot lock/.test(problem ?? ''))
      throw new MachineUnfit(cannotCreate(problem))
    await sleep(100)
  }
}

const cannotCreate = (problem: string | undefined): string =>
  `PostgreSQL refuses to run as root, and the system user "${name}" that would run it cannot be created ` +
  `(${problem ?? 'useradd made none'}). Create that user, start Keyhook as an ordinary user, ` +
  'or set DATABASE_URL to a PostgreSQL server of your own.'

/** An operating-system account without supplementary groups: Node drops those when it spawns under another uid. */
export type Account = { uid: number; gid: number }
export type Modes = { mode: number; uid: number; gid: number }

export const enter = 0o1
export const read = 0o4

/** Exactly one triplet of mode bits counts: an owner without x is rejected even where "other" has it. */
export function allows(modes: Modes, who: Account, wanted: number): boolean {
  if (who.uid === 0) return true
  if (modes.uid === who.uid) return ((modes.mode >> 6) & wanted) === wanted
  if (modes.gid === who.gid) return ((modes.mode >> 3) & wanted) === wanted
  return (modes.mode & wanted) === wanted
}

/** The outermost directory on the path, itself included, that `who` may not enter. Expects a real path. */
export async function firstClosedDirectory(
  path: string,
  who: Account,
  modesOf: (path: string) => Promise<Modes> = stat,
): Promise<string | undefined> {
  for (const directory of pathsFromRoot(path)) {
    if (!allows(await modesOf(directory), who, enter)) return directory
  }
  return undefined
}

/** `/a/b` → `/`, `/a`, `/a/b`. */
export function pathsFromRoot(path: string): string[] {
  const parent = dirname(path)
  return parent === path ? [path] : [...pathsFromRoot(parent), path]
}

/** Who owns a path that this user cannot access, or its directory; and what to do if the mode is the reason. */
export async function whyInaccessible(path: string): Promise<{ owner: number; modeProblem: string | null }> {
  const real = await realpath(path).catch(() => path)
  const closed = await lstat(real).then(
    () => real,
    () => dirname(real),
  )
  const { uid, mode } = await lstat(closed)
  if (uid !== process.getuid?.()) return { owner: uid, modeProblem: null }
  const bits = (mode & 0o777).toString(8).padStart(3, '0')
  return { owner: uid, modeProblem: `${closed} is yours, but its mode (${bits}) denies access: chmod u+rwX ${closed}` }
}

/** This machine or user cannot run PostgreSQL. The message is for the operator. */
export class MachineUnfit extends Error {
  override readonly name = 'MachineUnfit'
}

/** A problem of the machine, and not of Keyhook, that keeps PostgreSQL from running. */
export type MachineProblem = 'no-room' | 'read-only' | 'nameless-user' | 'only-root' | 'few-files'

const signs: { problem: MachineProblem; codes: string[]; message: RegExp }[] = [
  {
    problem: 'no-room',
    codes: ['ENOSPC', 'EDQUOT', '53100'],
    message: /No space left on device|Disk quota exceeded|Check free disk space/,
  },
  { problem: 'read-only', codes: ['EROFS'], message: /Read-only file system/ },
  { problem: 'nameless-user', codes: [], message: /could not look up effective user ID/ },
  {
    problem: 'only-root',
    codes: [],
    message:
      /\b(EPERM|EINVAL)\b[^\n]* l?chown\b|\bspawn\b[^\n]* (EPERM|EINVAL)\b|chown: .*(Operation not permitted|Invalid argument)/,
  },
  { problem: 'few-files', codes: ['EMFILE'], message: /\bEMFILE\b|insufficient file descriptors|Too many open files/ },
]

/** Looks at the error code and at a program's last lines, in the error and in its causes. */
export function machineProblem(error: unknown): MachineProblem | null {
  if (!(error instanceof Error)) return null
  const { code } = error as { code?: unknown }
  const sign = signs.find(({ codes, message }) => codes.includes(String(code)) || message.test(error.message))
  return sign?.problem ?? machineProblem(error.cause)
}
