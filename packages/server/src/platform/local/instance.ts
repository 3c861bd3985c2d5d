import { setTimeout as sleep } from 'node:timers/promises'
import { superuser } from '../../embedded/cluster.ts'
import { clearOrphan } from '../../embedded/orphan.ts'
import { type Postmaster, startPostmaster } from '../../embedded/postmaster.ts'
import { socketNameOf } from '../../embedded/socket-directory.ts'
import type { Home } from './home.ts'
import { handOver, type InstanceDirectory } from './instance-directory.ts'
import { instanceSettings } from './instance-settings.ts'

const backoffMsMin = 500
const backoffMsMax = 60_000
/** One that ran for so long has earned a fresh start of the backoff. */
const steadyMs = 60_000
/** For the orderly end of one that a killed predecessor left. A customer's session may never let it come to that. */
const orphanMsMax = 5_000

/** The way in for us: the socket, as superuser. */
export type Control = { host: string; port: number; user: string; password: string; database: string }

export type Instance = {
  /** Resolves when it accepts connections; rejects when the first start fails. */
  ready: Promise<void>
  /** Where its socket is right now. */
  control(): Control
  /** `atOnce`: one session that cannot be cancelled would keep an orderly end waiting. */
  stop(options?: { atOnce?: boolean }): Promise<void>
}

export type InstanceOptions = {
  home: Home
  id: string
  directory: InstanceDirectory
  /** Null keeps it private to us. */
  host: string | null
  port: number
  onEvent: (event: InstanceEvent) => void
}

export type InstanceEvent =
  | { kind: 'stopped_by_itself'; why: string; restartInMs: number }
  | { kind: 'restart_failed'; why: string; restartInMs: number }
  | { kind: 'restarted' }
  | { kind: 'orphan'; note: string }

/**
 * One running server, and somebody who looks after it: if it ends by itself it is started again, more patiently each
 * time. Whatever a killed predecessor left running on the directory is ended first, so there is never a second one.
 */
export function runInstance(options: InstanceOptions): Instance {
  const stopping = new AbortController()
  const hurrying = new AbortController()
  let current: Postmaster | undefined

  async function start(onExit: (why: string) => void): Promise<void> {
    const { directory, home, id, host, port } = options
    const note = (text: string) => options.onEvent({ kind: 'orphan', note: text })
    const clearing = await clearOrphan(directory.cluster, { note, socket: socketNameOf(port), patienceMs: orphanMsMax })
    if (clearing === 'elsewhere')
      throw new Error(`${directory.cluster} is served by a process that cannot be seen here`)
    await handOver(home, directory)
    stopping.signal.throwIfAborted()
    current = await startPostmaster({
      dataDir: directory.path,
      cluster: directory.cluster,
      binaries: home.binaries,
      account: home.account,
      settings: instanceSettings({ id, host, port }),
      note: () => {},
      onExit,
      signal: hurrying.signal,
    })
  }

  /** Runs the server over and over until it is to stop. `ready` hears of the first start only. */
  async function look(after: PromiseWithResolvers<void>): Promise<void> {
    let backoffMs = backoffMsMin
    const told = aborted(stopping.signal)
    for (let first = true; !stopping.signal.aborted; first = false) {
      const ended = Promise.withResolvers<string>()
      const began = Date.now()
      try {
        await start(ended.resolve)
      } catch (error) {
        if (first) return after.reject(error)
        options.onEvent({ kind: 'restart_failed', why: String(error), restartInMs: backoffMs })
        backoffMs = await pause(backoffMs)
        continue
      }
      if (first) after.resolve()
      else options.onEvent({ kind: 'restarted' })
      const why = await Promise.race([ended.promise, told])
      if (why === null) break
      // It has ended; this lets go of its log and of its socket's directory.
      await current?.stop()
      current = undefined
      if (Date.now() - began > steadyMs) backoffMs = backoffMsMin
      options.onEvent({ kind: 'stopped_by_itself', why, restartInMs: backoffMs })
      backoffMs = await pause(backoffMs)
    }
  }

  async function pause(ms: number): Promise<number> {
    await sleep(ms, undefined, { signal: stopping.signal }).catch(() => {})
    return Math.min(ms * 2, backoffMsMax)
  }

  const readiness = Promise.withResolvers<void>()
  // Whoever asks gets the rejection; with nobody asking it must not end the process.
  readiness.promise.catch(() => {})
  const running = look(readiness)

  return {
    ready: readiness.promise,
    control() {
      if (current === undefined) throw new Error(`${options.id} is not running at the moment`)
      const { port } = options
      return { host: current.socketDirectory, port, user: superuser, password: '', database: 'postgres' }
    },
    async stop({ atOnce = false } = {}) {
      stopping.abort()
      if (atOnce) hurrying.abort()
      await running
      await current?.stop({ atOnce })
      current = undefined
    },
  }
}

const aborted = (signal: AbortSignal): Promise<null> =>
  new Promise((done) => {
    if (signal.aborted) return done(null)
    signal.addEventListener('abort', () => done(null), { once: true })
  })
