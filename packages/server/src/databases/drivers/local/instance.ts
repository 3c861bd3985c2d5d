import { setTimeout as sleep } from 'node:timers/promises'
import type { DatabaseId } from '../../../lib/ids.ts'
import { NotRunning } from '../../../lib/step-failure.ts'
import type { Account } from '../../../postgres/account.ts'
import { superuser } from '../../../postgres/cluster.ts'
import { socketNameOf } from '../../../postgres/lock-file.ts'
import { stopOrphan } from '../../../postgres/orphan.ts'
import { type Postmaster, startPostmaster } from '../../../postgres/postmaster.ts'
import type { RunAs } from '../../../postgres/start-program.ts'
import { endProcessesOf } from '../../../postgres/uids.ts'
import type { Certificate } from '../../certificates.ts'
import type { InstanceLimits } from './cgroups.ts'
import { extensionSettings } from './extensions.ts'
import type { Home } from './home.ts'
import { giveInstanceTo, type InstanceDirectory, runAsOf } from './instance-directory.ts'
import { type InstanceTls, instanceSettings, writeCertificate, writeServerFiles } from './instance-files.ts'
import type { LimitReport } from './limiter.ts'
import type { PortRange } from './ports.ts'

const backoffMsMin = 500
const backoffMsMax = 60_000

/** The backoff is reset after a run of this length. */
const steadyMs = 60_000

/** For the fast shutdown of an orphan. A session that cannot be cancelled would delay it for ever. */
const orphanShutdownMsMax = 5_000

/** Our own connection: through the socket, as superuser. */
export type Control = { host: string; port: number; user: string; password: string; database: string }

export type Instance = ReturnType<typeof runInstance>

export type InstanceOptions = {
  home: Home
  id: string
  directory: InstanceDirectory
  /** Null: no TCP. */
  host: string | null
  port: number
  storageLimitBytes: number
  /** Adds what limits the server to who runs it. */
  limit: (runAs: RunAs) => RunAs
  /** Asked at every start. */
  tls: () => Promise<InstanceTls>
  /** Before every start: nobody but this account may answer clients from its port. */
  protectPort: (account: Account) => Promise<void>
  /** Only for this run, such as those of a recovery. */
  settings?: Readonly<Record<string, string>> | undefined
  onEvent: (event: InstanceEvent) => void
}

type InstanceEvent =
  | { kind: 'stopped_by_itself'; why: string; restartInMs: number }
  | { kind: 'restart_failed'; why: string; restartInMs: number }
  | { kind: 'restarted' }
  /** PostgreSQL ends the other sessions then, and recovers by itself. */
  | { kind: 'out_of_memory'; kills: number }
  | { kind: 'orphan'; note: string }
  | { kind: 'processes_left'; why: string }
  | { kind: 'pending_connections_ended'; count: number }

export type LocalInstancesOptions = {
  /** Called on first use, so that an installation without databases has no cost. */
  home: () => Promise<Home>
  host: string
  /** The name under which clients find this node. */
  publicHost: string
  ports: PortRange
  /** What one instance may use of the disk; its WAL and temporary files get shares of it. */
  storageLimitBytes: number
  /** Memory, processes and processor time of each instance. */
  limits: InstanceLimits
  /** How they are enforced here. */
  onLimits?: (report: LimitReport) => void
  /** Whether clients may connect without TLS. Counts once there is a certificate. */
  tlsAccept?: 'encrypted' | 'any'
  onEvent: (id: DatabaseId, event: InstanceEvent) => void
  onCertificateProblem?: (error: unknown) => void
  certificateCheckMs?: number
  /** Settings of PostgreSQL instead of the usual ones. */
  settings?: Readonly<Record<string, string>>
  /** False: `archiveWal` is never called. */
  archivesWal?: boolean
  /** Limit for each statement of a backup. */
  backupStatementMsMax?: number
}

/** Restarts a server that ends by itself. An orphan of a killed process is stopped first, so there are never two on one directory. */
export function runInstance(options: InstanceOptions) {
  const stopping = new AbortController()
  const immediately = new AbortController()
  let current: Postmaster | undefined

  async function start(onExit: (why: string) => void): Promise<void> {
    const { directory, home, id, host, port, storageLimitBytes } = options
    const note = (text: string) => options.onEvent({ kind: 'orphan', note: text })
    const orphan = await stopOrphan(directory.cluster, {
      note,
      socket: socketNameOf(port),
      fastShutdownMsMax: orphanShutdownMsMax,
    })
    if (orphan === 'elsewhere') throw new Error(`${directory.cluster} is in use by a process outside of this machine`)
    const runAs = await runAsOf(home, directory)
    if (home.uids !== null && runAs.account !== undefined) {
      await endProcessesOf(runAs.account)
      await options.protectPort(runAs.account)
    }
    await giveInstanceTo(runAs.account, home, directory)
    const files = await writeServerFiles(directory.path, { account: runAs.account, tls: await options.tls() })
    stopping.signal.throwIfAborted()
    current = await startPostmaster({
      dataDir: directory.path,
      cluster: directory.cluster,
      binaries: home.binaries,
      ...options.limit(runAs),
      settings: {
        ...instanceSettings({ id, host, port, storageLimitBytes }),
        ...files,
        ...(await extensionSettings(home)),
        ...options.settings,
      },
      note: () => {},
      onExit,
      signal: immediately.signal,
    })
  }

  /** Restarts the server until `stop`. `firstStart` is settled by the first start only. */
  async function keepRunning(firstStart: PromiseWithResolvers<void>): Promise<void> {
    let backoffMs = backoffMsMin
    const stopped = aborted(stopping.signal)
    for (let first = true; !stopping.signal.aborted; first = false) {
      const ended = Promise.withResolvers<string>()
      const began = Date.now()
      try {
        await start(ended.resolve)
      } catch (error) {
        if (first) return firstStart.reject(error)
        options.onEvent({ kind: 'restart_failed', why: String(error), restartInMs: backoffMs })
        backoffMs = await pause(backoffMs)
        continue
      }
      if (first) firstStart.resolve()
      else options.onEvent({ kind: 'restarted' })
      const why = await Promise.race([ended.promise, stopped])
      if (why === null) break
      // It has ended; this closes its log and removes its socket directory.
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
  // Without a caller that waits for it, the rejection must not end the process.
  readiness.promise.catch(() => {})
  const running = keepRunning(readiness)

  return {
    /** Resolves when it accepts connections; rejects if the first start fails. */
    ready: readiness.promise,
    isUp: () => current !== undefined,
    /** Throws while it is not running. */
    control(): Control {
      if (current === undefined) throw new NotRunning()
      const { port } = options
      return { host: current.socketDirectory, port, user: superuser, password: '', database: 'postgres' }
    },
    /** Of its server; undefined while it is not running. */
    pid: () => current?.pid,
    /** Shows another certificate from now on; sessions go on. */
    async renewCertificate(certificate: Certificate): Promise<void> {
      const { account } = await runAsOf(options.home, options.directory)
      await writeCertificate(options.directory.path, { account, certificate })
      current?.reload()
    },
    /** `immediate` does not wait for sessions. */
    async stop({ immediate = false } = {}): Promise<void> {
      stopping.abort()
      if (immediate) immediately.abort()
      await running
      await current?.stop({ immediate })
      current = undefined
      // A program that somebody started in the account would go on, and could take the ports of others.
      const account = await options.home.uids?.accountOf(options.directory.path)
      const onEvent = (error: unknown) => options.onEvent({ kind: 'processes_left', why: String(error) })
      if (account) await endProcessesOf(account).catch(onEvent)
    },
  }
}

const aborted = (signal: AbortSignal): Promise<null> =>
  new Promise((done) => {
    if (signal.aborted) return done(null)
    signal.addEventListener('abort', () => done(null), { once: true })
  })
