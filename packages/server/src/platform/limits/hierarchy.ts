import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Where groups can be created. Version 1 has a tree for each controller, version 2 one for all. */
export type Hierarchy = {
  version: 'v1' | 'v2'
  parents: string[]
  /** The file of a group that counts kills for lack of memory. */
  memoryEvents: string
  /** Makes the controllers available to the groups in this one. */
  prepare(path: string): void
}

const controllers = ['memory', 'pids', 'cpu']
const enable = controllers.map((name) => `+${name}`).join(' ')

/** Version 2 if it has the memory controller, else version 1: a machine may have both. */
export function findHierarchy(): Hierarchy | { problem: string } {
  if (process.platform !== 'linux') return { problem: 'this system has no cgroups' }
  try {
    const mounts = readMounts()
    return findV2(mounts) ?? findV1(mounts) ?? { problem: 'no cgroup hierarchy with a memory controller is mounted' }
  } catch (error) {
    return { problem: noGroups(error) }
  }
}

/** Usual for an ordinary user, and in containers. */
export function noGroups(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  if (code === 'EACCES' || code === 'EPERM') return 'this user may not create cgroups'
  return code === 'EROFS' ? 'cgroups are read-only here' : message
}

type Mount = { path: string; type: string; options: string[] }

/** Fields 5 and, after the hyphen, type, source and options (man 5 proc). */
function readMounts(): Mount[] {
  return readFileSync('/proc/self/mountinfo', 'utf8')
    .trim()
    .split('\n')
    .map((line) => {
      const [before = '', after = ''] = line.split(' - ')
      const [type = '', , options = ''] = after.split(' ')
      return { path: before.split(' ')[4] ?? '', type, options: options.split(',') }
    })
}

function findV1(mounts: readonly Mount[]): Hierarchy | undefined {
  const mountOf = (name: string) =>
    mounts.find(({ type, options }) => type === 'cgroup' && options.includes(name))?.path
  const memory = mountOf('memory')
  if (memory === undefined) return undefined
  const parents = [...new Set([memory, mountOf('pids'), mountOf('cpu')].filter((path) => path !== undefined))]
  return { version: 'v1', parents, memoryEvents: 'memory.oom_control', prepare() {} }
}

function findV2(mounts: readonly Mount[]): Hierarchy | undefined {
  const root = mounts.find(({ type }) => type === 'cgroup2')?.path
  if (root === undefined || !has(root, 'cgroup.controllers', 'memory')) return undefined
  const own = join(root, /^0::(.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1] ?? '/')
  const parent = own !== root && isOurs(own) ? own : root
  const prepare = (path: string) => writeFileSync(join(path, 'cgroup.subtree_control'), enable)
  if (parent === own) moveInto(own, join(own, 'keyhook-main'))
  prepare(parent)
  return { version: 'v2', parents: [parent], memoryEvents: 'memory.events', prepare }
}

const has = (path: string, file: string, word: string): boolean =>
  readFileSync(join(path, file), 'utf8').trim().split(' ').includes(word)

/**
 * Delegated to us, as by `Delegate=yes` of systemd: nothing runs in it except for us and what we started. Its own processes have to leave it before
 * its groups can have limits.
 */
function isOurs(path: string): boolean {
  try {
    return processesIn(path).every(isOurProcess)
  } catch {
    return false
  }
}

const processesIn = (path: string): number[] =>
  readFileSync(join(path, 'cgroup.procs'), 'utf8').trim().split('\n').filter(Boolean).map(Number)

/** We are among its ancestors. */
function isOurProcess(pid: number): boolean {
  for (let at = pid; at > 1; at = parentOf(at)) if (at === process.pid) return true
  return pid === process.pid
}

function parentOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
}

function moveInto(from: string, leaf: string): void {
  mkdirSync(leaf, { recursive: true })
  // Again, because a process that was moved may have started another one just before.
  for (let pids = processesIn(from); pids.length > 0; pids = processesIn(from)) {
    for (const pid of pids) {
      try {
        writeFileSync(join(leaf, 'cgroup.procs'), String(pid))
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
      }
    }
  }
}
