import { execFile } from 'node:child_process'
import { readdir, readFile, readlink, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { untrustedTree } from './untrusted-files.ts'

/** PostgreSQL's `postmaster.pid`. The socket directory and the status are written a little later than the pid. */
export type LockFile = { pid: number; socketDirectory: string | undefined; ready: boolean }

export const lockFilePath = (cluster: string): string => join(cluster, 'postmaster.pid')

const lockBytesMax = 4_096

export async function readLockFile(cluster: string): Promise<LockFile | undefined> {
  const content = await untrustedTree(cluster).read('postmaster.pid', lockBytesMax)
  const lock = content && parseLockFile(content.toString('utf8'))
  // 1 is the first process of a pid namespace, which has another number here.
  return lock?.pid === 1 ? { ...lock, pid: (await firstOfNamespaceOn(cluster)) ?? 1 } : lock
}

async function firstOfNamespaceOn(cluster: string): Promise<number | undefined> {
  for (const name of await readdir('/proc').catch(() => [])) {
    if (!/^\d+$/.test(name) || !(await isPostgresOn(cluster, Number(name)))) continue
    const status = await readFile(`/proc/${name}/status`, 'utf8').catch(() => '')
    if (/^NSpid:.*\t1$/m.test(status)) return Number(name)
  }
  return undefined
}

export function parseLockFile(text: string): LockFile | undefined {
  const [pid, , , , socketDirectory, , , status] = text.split('\n')
  // A postmaster in single-user mode writes its pid as a negative number.
  const number = Math.abs(Number.parseInt(pid ?? '', 10))
  if (!(number > 0)) return undefined
  return { pid: number, socketDirectory: socketDirectory?.trim() || undefined, ready: status?.trim() === 'ready' }
}

/** Pids are reused: only a postgres with this working directory counts, and a zombie does not. */
export async function isPostgresOn(cluster: string, pid: number): Promise<boolean> {
  const real = await realpath(cluster)
  if (process.platform === 'linux') {
    const [program, directory] = await Promise.all([
      readlink(`/proc/${pid}/exe`).catch(() => ''),
      readlink(`/proc/${pid}/cwd`).catch(() => ''),
    ])
    // " (deleted)" follows the name when the package was reinstalled under a running server.
    return /\/postgres( \(deleted\))?$/.test(program) && directory === real
  }
  const command = await promisify(execFile)('ps', ['-o', 'command=', '-p', String(pid)]).then(
    ({ stdout }) => stdout,
    () => '',
  )
  return /(^|\/)postgres /.test(command) && (command.includes(cluster) || command.includes(real))
}
