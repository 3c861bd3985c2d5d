import { connectionsToEnd, createPendingReader } from './pending-connections.ts'

/** At rest this is one read of a file per server. While connections have to be ended, others want their place at once. */
const calmMs = 200
const pressedMs = 20
const reportMs = 60_000

type Watched<Id> = Iterable<readonly [Id, { pid(): number | undefined }]>

/**
 * Ends connections that do not log in, where a server has too many: PostgreSQL limits them in time (`authentication_timeout`)
 * and not in number, and each takes one of its places. Linux only; elsewhere the limit in time has to do.
 */
export function watchPending<Id>(deps: { servers: () => Watched<Id>; onEnded: (id: Id, count: number) => void }): {
  close(): void
} {
  type State = { pid: number; read: ReturnType<typeof createPendingReader>; ended: number; reportAt: number }
  const states = new Map<Id, State>()
  let timer: NodeJS.Timeout | undefined

  function check(id: Id, pid: number): boolean {
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
    const present = new Set<Id>()
    for (const [id, server] of deps.servers()) {
      const pid = server.pid()
      if (pid === undefined) continue
      present.add(id)
      if (check(id, pid)) isPressed = true
    }
    for (const id of states.keys()) if (!present.has(id)) states.delete(id)
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
