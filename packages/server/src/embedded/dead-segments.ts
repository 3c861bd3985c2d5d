import { readdir, readFile, readlink, stat, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { runTool } from './tool.ts'
import { processesOf } from './uids.ts'

/** Of PostgreSQL's lock in System V shared memory, which tells a new server that an old one still runs. */
const lockBytes = 56
const sharedMemory = '/dev/shm'
/** The kernel's fixed number for the first namespace of processes. */
const hostProcesses = 'pid:[4026531836]'

/**
 * Removes shared memory that servers and interrupted initdbs of an account left: PostgreSQL does so itself only if a server starts on the
 * same cluster again. Memory that is younger than `ageMsMin` may belong to a server that is just starting.
 */
export async function removeDeadSegments(uid: number, ageMsMin = 10_000): Promise<void> {
  const isOld = (atMs: number) => Date.now() - atMs >= ageMsMin
  // Columns: key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime …
  const rows = (await readFile('/proc/sysvipc/shm', 'utf8').catch(() => '')).trim().split('\n').slice(1)
  for (const row of rows) {
    const [, id, , bytes, , , attached, owner, , , , , , changedSeconds = 0] = row.trim().split(/\s+/).map(Number)
    if (owner === uid && bytes === lockBytes && attached === 0 && isOld(changedSeconds * 1_000))
      await runTool('ipcrm', ['-m', String(id)], { account: undefined }).catch(() => {})
  }
  // In a container the processes of others are hidden, and its memory usually ends with it.
  if ((await readlink('/proc/self/ns/pid').catch(() => '')) !== hostProcesses) return
  const left: string[] = []
  for (const name of await readdir(sharedMemory).catch(() => [])) {
    const found = name.startsWith('PostgreSQL.') && (await stat(join(sharedMemory, name)).catch(() => undefined))
    if (found && found.uid === uid && isOld(found.mtimeMs)) left.push(join(sharedMemory, name))
  }
  if (left.length === 0) return
  const maps = await Promise.all(
    (await processesOf(uid)).map((pid) => readFile(`/proc/${pid}/maps`, 'utf8').catch(() => '')),
  )
  const isUsed = (path: string) => maps.some((text) => text.includes(`${path}\n`))
  for (const path of left) if (!isUsed(path)) await unlink(path).catch(() => {})
}
