import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Account } from './account.ts'
import { runTool } from './start-program.ts'

export type UidRange = { first: number; last: number }

/** Outside of everything that Linux distributions, systemd, containers and directories of users hand out. */
const usual: UidRange = { first: 1_900_000_000, last: 1_999_999_999 }
/** For root of a container that has only 65,536 uids. */
const inContainers: UidRange = { first: 20_000, last: 59_999 }

/**
 * The uids for databases, one each: those of the setting, or the first range that this machine has. Null where there is none,
 * so that databases have to share an account. A process can use only the uids of its user namespace.
 */
export async function usableUids(wanted: UidRange | null): Promise<UidRange | null> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return null
  const maps = await Promise.all(['uid_map', 'gid_map'].map((name) => readFile(`/proc/self/${name}`, 'utf8')))
  const found = (wanted === null ? [usual, inContainers] : [wanted]).find((range) =>
    maps.every((map) => covers(map, range)),
  )
  if (found === undefined && wanted !== null)
    throw new Error(
      `KEYHOOK_DATABASES_UIDS: ${wanted.first}-${wanted.last} is outside of the ids that this process may use ` +
        '(/proc/self/uid_map and gid_map).',
    )
  return found ?? null
}

/** Lines of `first id inside, first id outside, count`. */
export const covers = (map: string, { first, last }: UidRange): boolean =>
  map.split('\n').some((line) => {
    const [inside = Number.NaN, , count = Number.NaN] = line.trim().split(/\s+/).map(Number)
    return first >= inside && last < inside + count
  })

/** Whether nobody has the uid: no account, no process, no shared memory, and no file where everyone may leave one. */
export async function isUnused(uid: number): Promise<boolean> {
  if ((await processesOf(uid)).length > 0) return false
  for (const path of ['/etc/passwd', '/etc/group']) {
    const text = await readFile(path, 'utf8').catch(() => '')
    if (text.split('\n').some((line) => line.split(':')[2] === String(uid))) return false
  }
  for (const kind of ['shm', 'sem', 'msg']) {
    const table = await readFile(`/proc/sysvipc/${kind}`, 'utf8').catch(() => '')
    if (table.split('\n').some((line) => line.trim().split(/\s+/).includes(String(uid)))) return false
  }
  for (const directory of ['/tmp', '/var/tmp', '/dev/shm']) {
    for (const name of await readdir(directory).catch(() => [])) {
      if ((await stat(join(directory, name)).catch(() => null))?.uid === uid) return false
    }
  }
  return true
}

/** Processes with this real, effective, saved or file-system uid. */
export async function processesOf(uid: number): Promise<number[]> {
  const found: number[] = []
  for (const name of await readdir('/proc').catch(() => [])) {
    if (!/^\d+$/.test(name)) continue
    const status = statusOf(name)
    const [, uids = ''] = /^Uid:\t(.*)$/m.exec(status) ?? []
    // A zombie holds nothing, and stays until its parent asks for it.
    if (uids.split('\t').includes(String(uid)) && !/^State:\tZ/m.test(status)) found.push(Number(name))
  }
  return found
}

/** Not awaited: a machine with a hundred databases has a thousand processes, and nothing here waits for a disk. */
function statusOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8')
  } catch {
    return ''
  }
}

const endMsMax = 10_000

/** Ends every process of an account that only one database has, whatever it is and however fast it forks. */
export async function endProcessesOf(account: Account): Promise<void> {
  assert(account.uid > 0)
  const deadline = Date.now() + endMsMax
  while ((await processesOf(account.uid)).length > 0) {
    if (Date.now() > deadline) throw new Error(`processes of the user with id ${account.uid} do not end`)
    // As the account: the kernel then signals all of its processes at once, and no other. The shell ends itself with them.
    await runTool('sh', ['-c', 'kill -KILL -1'], { account }).catch(() => {})
    await sleep(20)
  }
}
