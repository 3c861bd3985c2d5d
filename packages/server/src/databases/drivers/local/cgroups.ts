import { createHash } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync, rmdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export type InstanceLimits = { memoryBytes: number; processesMax: number; cpus: number }

export type Group = ReturnType<typeof createGroup>

type Cgroups = { version: Hierarchy['version']; group(id: string, limits: InstanceLimits): Group; close(): void }

/** Groups of other installations that were left empty for so long belong to a process that was killed. */
const abandonedMs = 10 * 60_000
const prefix = 'keyhook-'
const periodUs = 100_000

/** Null, with the reason, where this process may create no groups with limits of memory. */
export function openCgroups(home: string): { cgroups: Cgroups } | { problem: string } {
  const hierarchy = findHierarchy()
  if ('problem' in hierarchy) return hierarchy
  const name = prefix + createHash('sha256').update(home).digest('hex').slice(0, 16)
  const parents = hierarchy.parents.map((parent) => join(parent, name))
  try {
    for (const parent of hierarchy.parents) removeAbandoned(parent)
    for (const path of parents) {
      mkdirSync(path, { recursive: true })
      hierarchy.prepare(path)
      // What a killed Keyhook left. A group with processes stays: they are stopped before the instance starts again.
      removeGroupsIn(path)
    }
  } catch (error) {
    return { problem: noGroups(error) }
  }
  return {
    cgroups: {
      version: hierarchy.version,
      group: (id, limits) => createGroup(hierarchy, parents, id, limits),
      close() {
        for (const path of parents) {
          removeGroupsIn(path)
          remove(path)
        }
      },
    },
  }
}

/** The group of one instance. */
function createGroup(
  { version, memoryEvents }: Hierarchy,
  parents: readonly string[],
  id: string,
  limits: InstanceLimits,
) {
  const paths = parents.map((parent) => join(parent, id))
  for (const path of paths) mkdirSync(path, { recursive: true })
  const settings = version === 'v2' ? settingsV2(limits) : settingsV1(limits)
  for (const [file, value] of settings) for (const path of paths) writeIfThere(join(path, file), value)
  return {
    /** The process and everything that it starts from now on. */
    add(pid: number): void {
      for (const path of paths) writeFileSync(join(path, 'cgroup.procs'), String(pid))
    },
    /** How many of its processes the kernel has ended for lack of memory, ever. */
    outOfMemoryKills(): number {
      for (const path of paths) {
        const events = read(join(path, memoryEvents))
        if (events !== undefined) return Number(/^oom_kill (\d+)$/m.exec(events)?.[1] ?? 0)
      }
      return 0
    },
    /** Does nothing while a process is in it. */
    remove(): void {
      for (const path of paths) remove(path)
    },
  }
}

/** No swap: an instance that needs it would slow down the disk for all. */
const settingsV2 = ({ memoryBytes, processesMax, cpus }: InstanceLimits): [string, string][] => [
  ['memory.max', String(memoryBytes)],
  ['memory.swap.max', '0'],
  ['pids.max', String(processesMax)],
  ['cpu.max', `${Math.floor(cpus * periodUs)} ${periodUs}`],
]

const settingsV1 = ({ memoryBytes, processesMax, cpus }: InstanceLimits): [string, string][] => [
  // The second includes swap and must not be below the first; a group that exists may have a lower one.
  ['memory.memsw.limit_in_bytes', '-1'],
  ['memory.limit_in_bytes', String(memoryBytes)],
  ['memory.memsw.limit_in_bytes', String(memoryBytes)],
  ['pids.max', String(processesMax)],
  ['cpu.cfs_period_us', String(periodUs)],
  ['cpu.cfs_quota_us', String(Math.floor(cpus * periodUs))],
]

/** In version 1 each controller has a directory of its own, with its own files. */
function writeIfThere(path: string, value: string): void {
  if (read(path) !== undefined) writeFileSync(path, value)
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

function groupsIn(path: string): string[] {
  try {
    return readdirSync(path, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name)
  } catch {
    return []
  }
}

function removeGroupsIn(path: string): void {
  for (const child of groupsIn(path)) remove(join(path, child))
}

/** The kernel keeps a group that has processes or groups. */
function remove(path: string): void {
  try {
    rmdirSync(path)
  } catch {
    // In use, or gone.
  }
}

function removeAbandoned(parent: string): void {
  for (const name of groupsIn(parent)) {
    if (!name.startsWith(prefix)) continue
    const path = join(parent, name)
    try {
      if (Date.now() - statSync(path).mtimeMs < abandonedMs) continue
    } catch {
      continue
    }
    removeGroupsIn(path)
    remove(path)
  }
}

/** Where groups can be created. Version 1 has a tree for each controller, version 2 one for all. */
type Hierarchy = {
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
function findHierarchy(): Hierarchy | { problem: string } {
  if (process.platform !== 'linux') return { problem: 'this system has no cgroups' }
  try {
    const mounts = readMounts()
    return findV2(mounts) ?? findV1(mounts) ?? { problem: 'no cgroup hierarchy with a memory controller is mounted' }
  } catch (error) {
    return { problem: noGroups(error) }
  }
}

/** Usual for an ordinary user, and in containers. */
function noGroups(error: unknown): string {
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
  // Its own processes have to leave it before its groups can have limits.
  if (parent === own) moveInto(own, join(own, 'keyhook-main'))
  prepare(parent)
  return { version: 'v2', parents: [parent], memoryEvents: 'memory.events', prepare }
}

const has = (path: string, file: string, word: string): boolean =>
  readFileSync(join(path, file), 'utf8').trim().split(' ').includes(word)

/** Delegated to us (`Delegate=yes` of systemd): nothing runs in it except for us and what we started. */
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
