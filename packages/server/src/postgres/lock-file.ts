import { execFile } from 'node:child_process'
import { chown, mkdtemp, readdir, readFile, readlink, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Account, firstClosedDirectory } from './account.ts'
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

export const port = 5432
export const socketNameOf = (port: number): string => `.s.PGSQL.${port}`
export const socketName = socketNameOf(port)
/** Customers' databases have other ports, with up to five digits. */
const socketNameLongest = socketNameOf(65_535)

/** The kernel's limit for a socket's path is 104 bytes on macOS and 108 on Linux, with the zero byte at its end. */
const pathBytesMax = 103

export type SocketDirectory = { path: string; remove(): Promise<void> }

export const fits = (directory: string): boolean =>
  Buffer.byteLength(join(directory, socketNameLongest)) <= pathBytesMax

/** A directory that `openSocketDirectory` may have made. */
export const isPrivateSocketDirectory = (path: string): boolean => /^\/([^.].*\/)?keyhook-[A-Za-z0-9]{6}$/.test(path)

/** The cluster's directory, which only its owner can enter; or a private one with a short path if that is too long. */
export async function openSocketDirectory(cluster: string, account: Account | undefined): Promise<SocketDirectory> {
  if (fits(cluster)) return { path: cluster, remove: async () => {} }
  for (const base of [tmpdir(), '/tmp']) {
    const real = await realpath(base).catch(() => undefined)
    if (real === undefined || !fits(join(real, 'keyhook-XXXXXX'))) continue
    if (account && (await firstClosedDirectory(real, account)) !== undefined) continue
    // mkdtemp creates it new with mode 0700, so no other user can have prepared it.
    const path = await mkdtemp(join(real, 'keyhook-'))
    if (account) await chown(path, account.uid, account.gid)
    return { path, remove: () => rm(path, { recursive: true, force: true }) }
  }
  throw new Error(
    `No place for PostgreSQL's socket: the paths of ${cluster} and of ${tmpdir()} are too long. Set TMPDIR.`,
  )
}
