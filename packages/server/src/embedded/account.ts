import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { MachineUnfit } from './machine-problem.ts'
import type { Account } from './permissions.ts'

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
