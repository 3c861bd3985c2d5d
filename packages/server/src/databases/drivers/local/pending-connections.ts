import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import type { DatabaseId } from '../../../lib/ids.ts'
import type { Instance } from './instance.ts'

/** A connection whose client has not shown a password yet. `source`: the address of the client, null if it is unknown. */
export type PendingConnection = { pid: number; source: string | null }

/** A client may open all its connections at once, and each takes a short time: fewer than it may have would break clients. */
const perSourceMax = 60
const inAllMax = 120

/** The oldest of each source above its share, then of all: a client that only wants to log in is done in milliseconds, and rarely the oldest. */
export function connectionsToEnd(
  pending: readonly PendingConnection[],
  limits = { perSourceMax, inAllMax },
): PendingConnection[] {
  const bySource = new Map<string | null, PendingConnection[]>()
  for (const one of pending) bySource.set(one.source, [...(bySource.get(one.source) ?? []), one])
  const ended = new Set<PendingConnection>()
  for (const group of bySource.values()) {
    for (const one of group.slice(0, Math.max(0, group.length - limits.perSourceMax))) ended.add(one)
  }
  const rest = pending.filter((one) => !ended.has(one))
  for (const one of rest.slice(0, Math.max(0, rest.length - limits.inAllMax))) ended.add(one)
  return [...ended]
}

/** From the processes of the machine (Linux): asking PostgreSQL needs a connection, which may be what is missing. */
function createPendingReader(postmaster: number) {
  /** Processes that have passed the login, or are no connection. They stay so until they end. */
  let settled = new Set<number>()

  return (): PendingConnection[] => {
    const children = childrenOf(postmaster)
    settled = settled.intersection(new Set(children))
    const pending: { pid: number; title: string }[] = []
    for (const pid of children) {
      if (settled.has(pid)) continue
      const title = titleOf(pid)
      if (isPending(title)) pending.push({ pid, title })
      // A process that has just ended has no title.
      else if (title !== '') settled.add(pid)
    }
    if (pending.length <= perSourceMax) return []
    const silent = sourcesBySocket(postmaster)
    return pending.map(({ pid, title }) => ({ pid, source: sourceInTitle(title) ?? silent(pid) }))
  }
}

/** In the order in which they were created. */
function childrenOf(pid: number): number[] {
  return readOr(`/proc/${pid}/task/${pid}/children`, '').split(' ').filter(Boolean).map(Number)
}

const titleOf = (pid: number): string => readOr(`/proc/${pid}/cmdline`, '').replace(/\0+$/, '').trimEnd()

/** Before the startup packet the title is the server's command line. Our own connections come through the socket and are left alone. */
const isPending = (title: string): boolean =>
  title !== '' &&
  (!title.startsWith('postgres: ') || (/ (initializing|authentication)$/.test(title) && !title.includes('[local]')))

/** The title ends with the address and port of the client, for example `app app 127.0.0.1(54321) authentication`. */
const sourceInTitle = (title: string): string | null =>
  /^postgres: .* (\S+)\(\d+\) (?:initializing|authentication)$/.exec(title)?.[1] ?? null

/** The address at the other end of a process's TCP connection, from the kernel's tables. */
function sourcesBySocket(postmaster: number): (pid: number) => string | null {
  const sources = new Map<string, string>()
  for (const table of ['tcp', 'tcp6']) {
    for (const line of readOr(`/proc/${postmaster}/net/${table}`, '').split('\n').slice(1)) {
      const fields = line.trim().split(/\s+/)
      const [remote, inode] = [fields[2], fields[9]]
      // In hexadecimal, as the kernel has it: it is only compared.
      if (remote !== undefined && inode !== undefined) sources.set(`socket:[${inode}]`, remote.split(':')[0]!)
    }
  }
  return (pid) => {
    try {
      for (const name of readdirSync(`/proc/${pid}/fd`)) {
        const source = sources.get(readlinkSync(`/proc/${pid}/fd/${name}`))
        if (source !== undefined) return source
      }
    } catch {
      // It has ended.
    }
    return null
  }
}

function readOr(path: string, fallback: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return fallback
  }
}

/** At rest this is one read of a file per server. While connections have to be ended, others want their place at once. */
const calmMs = 200
const pressedMs = 20
const reportMs = 60_000

/** PostgreSQL limits these in time (`authentication_timeout`) and not in number, and each takes one of its places. Linux only. */
export function watchPending(deps: {
  servers: ReadonlyMap<DatabaseId, Instance>
  onEnded: (id: DatabaseId, count: number) => void
}): { close(): void } {
  type State = { pid: number; read: ReturnType<typeof createPendingReader>; ended: number; reportAt: number }
  const states = new Map<DatabaseId, State>()
  let timer: NodeJS.Timeout | undefined

  function check(id: DatabaseId, pid: number): boolean {
    let state = states.get(id)
    if (state?.pid !== pid) state = { pid, read: createPendingReader(pid), ended: 0, reportAt: 0 }
    states.set(id, state)
    const chosen = connectionsToEnd(state.read())
    for (const one of chosen) end(one.pid)
    state.ended += chosen.length
    if (state.ended > 0 && Date.now() >= state.reportAt) {
      deps.onEnded(id, state.ended)
      Object.assign(state, { ended: 0, reportAt: Date.now() + reportMs })
    }
    return chosen.length > 0
  }

  function checkAll(): void {
    let isPressed = false
    for (const [id, server] of deps.servers) {
      const pid = server.pid()
      if (pid === undefined) states.delete(id)
      else if (check(id, pid)) isPressed = true
    }
    for (const id of states.keys()) if (!deps.servers.has(id)) states.delete(id)
    timer = setTimeout(checkAll, isPressed ? pressedMs : calmMs).unref()
  }

  if (process.platform === 'linux') checkAll()
  return { close: () => clearTimeout(timer) }
}

function end(pid: number): void {
  try {
    process.kill(pid, 'SIGTERM')
  } catch {
    // It has ended already.
  }
}
