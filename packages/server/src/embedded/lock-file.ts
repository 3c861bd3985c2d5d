import { execFile } from 'node:child_process'
import { readFile, readlink, realpath } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

/** PostgreSQL's `postmaster.pid`. The socket directory and the status are written a little later than the pid. */
export type LockFile = { pid: number; socketDirectory: string | undefined; ready: boolean }

export const lockFilePath = (cluster: string): string => join(cluster, 'postmaster.pid')

export async function readLockFile(cluster: string): Promise<LockFile | undefined> {
  const text = await readFile(lockFilePath(cluster), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  return text === undefined ? undefined : parseLockFile(text)
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
