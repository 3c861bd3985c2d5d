import { writeArchive } from '../../../archives/archive.ts'
import { traceStep } from '../../../jobs/worker.ts'
import type { DatabaseId } from '../../../lib/ids.ts'
import { NotRunning, StepFailure } from '../../../lib/step-failure.ts'
import { socketNameOf } from '../../../postgres/lock-file.ts'
import { stopOrphan } from '../../../postgres/orphan.ts'
import { endProcessesOf } from '../../../postgres/uids.ts'
import { NotAClusterFile } from '../../../postgres/untrusted-files.ts'
import { createCertificates } from '../../certificates.ts'
import type { Address, LocalInstances } from '../driver.ts'
import { baseBackup, explainBackupError, unpack } from './base-backup.ts'
import { readActivity, setOwnerPassword, waitUntilAccepting, withControl } from './control.ts'
import type { Home } from './home.ts'
import { type Instance, type LocalInstancesOptions, runInstance } from './instance.ts'
import {
  clusterTree,
  createCluster,
  forgetTakenPort,
  hasCluster,
  instanceDirectory,
  instancesIn,
  portOwnersIn,
  readPort,
  removeDirectory,
} from './instance-directory.ts'
import { createLimiter, type Limiter } from './limiter.ts'
import { watchPending } from './pending-connections.ts'
import { createPortGuard, createPorts } from './ports.ts'
import { createSpareClusters } from './spare-clusters.ts'
import { createStorageControl } from './storage-control.ts'
import { archiveWalOf, checkReplayed, forgetWal, prepareRecovery, recover } from './wal.ts'

/** A host of null: no TCP. */
type Listen = { port: number; host?: string | null; settings?: Readonly<Record<string, string>> }

/** Databases as PostgreSQL servers of this machine, one each. */
export function createLocalInstances(options: LocalInstancesOptions): LocalInstances {
  const running = new Map<DatabaseId, Instance>()
  const held = new Map<DatabaseId, Promise<void>>()
  /** These run without an address for clients. */
  const closed = new Set<DatabaseId>()
  const closing = new AbortController()
  const guard = createPortGuard()
  let limiter: Limiter | undefined
  let opened: ReturnType<typeof open> | undefined
  let preparing: Promise<unknown> | undefined
  const open = async () => {
    const home = await options.home()
    limiter ??= createLimiter({
      home: home.path,
      limits: options.limits,
      onOutOfMemory: (id, kills) => options.onEvent(id as DatabaseId, { kind: 'out_of_memory', kills }),
    })
    options.onLimits?.(limiter.report)
    // All ports before the first server runs: a program in its account could take the port of the next.
    if (home.uids !== null) await guard.protect(await portOwnersIn(home))
    return {
      home,
      spares: createSpareClusters(home, closing.signal),
      ports: createPorts({ home, host: options.host, range: options.ports }),
    }
  }
  const parts = () => {
    opened ??= open().catch((error: unknown) => {
      opened = undefined
      throw error
    })
    return opened
  }

  const certificates = createCertificates({
    onRenewal: async (id, certificate) => running.get(id)?.renewCertificate(certificate),
    onProblem: options.onCertificateProblem ?? (() => {}),
    checkMs: options.certificateCheckMs,
  })

  const onEnded = (id: DatabaseId, count: number) => options.onEvent(id, { kind: 'pending_connections_ended', count })
  const pending = watchPending({ servers: running, onEnded })

  function launch(home: Home, id: DatabaseId, { port, host = options.host, settings }: Listen): Instance {
    const instance = runInstance({
      home,
      id,
      directory: instanceDirectory(home, id),
      host,
      port,
      storageLimitBytes: options.storageLimitBytes,
      limit: (runAs) => limiter?.limit(id, runAs) ?? runAs,
      async tls() {
        const certificate = await certificates.of(id)
        return certificate === undefined ? null : { certificate, accept: options.tlsAccept ?? 'any' }
      },
      protectPort: ({ uid }) => guard.protect(new Map([[port, uid]])),
      settings: { ...options.settings, ...settings },
      onEvent: (event) => options.onEvent(id, event),
    })
    running.set(id, instance)
    // Each server has a listener for the exit of this process, so many listeners are not a leak.
    process.setMaxListeners(Math.max(process.getMaxListeners(), running.size + 20))
    return instance
  }

  async function run(home: Home, id: DatabaseId, listen: Listen, signal: AbortSignal): Promise<Instance> {
    signal.throwIfAborted()
    if (held.has(id)) throw new StepFailure('The database was stopped because of its storage.')
    const instance = running.get(id) ?? launch(home, id, listen)
    // After a crash it may replay its WAL for minutes, and a removal does not wait for that.
    const stop = () => void instance.stop({ immediate: true })
    signal.addEventListener('abort', stop, { once: true })
    try {
      await instance.ready
    } catch (error) {
      running.delete(id)
      signal.throwIfAborted()
      throw error
    } finally {
      signal.removeEventListener('abort', stop)
    }
    signal.throwIfAborted()
    return instance
  }

  async function halt(id: DatabaseId, how?: { immediate: boolean }): Promise<void> {
    const instance = running.get(id)
    running.delete(id)
    await instance?.stop(how)
    if (!running.has(id)) limiter?.forget(id)
  }

  function serverOf(id: DatabaseId): Instance {
    const instance = running.get(id)
    if (instance === undefined) throw new NotRunning()
    return instance
  }

  const treeOf = async (id: DatabaseId) => clusterTree((await parts()).home, id)

  async function address(port: number, signal: AbortSignal): Promise<Address> {
    await waitUntilAccepting({ host: options.host, port }, signal)
    return { host: options.publicHost, port }
  }

  async function portOf(id: DatabaseId): Promise<number> {
    const directory = instanceDirectory((await parts()).home, id)
    const port = await readPort(directory.path)
    if (port === null || !(await hasCluster(directory))) throw new Error(`the files of ${id} are not on this node`)
    return port
  }

  const resume: LocalInstances['resume'] = async (id, { signal }) => {
    const { home } = await parts()
    const port = await portOf(id)
    const at = { host: options.publicHost, port }
    if (held.has(id) || closed.has(id)) return at
    const instance = await run(home, id, { port }, signal)
    if (options.archivesWal === false) await forgetWal(instance, signal)
    return at
  }

  return {
    ...createStorageControl({ home: async () => (await parts()).home, running, held, halt, resume }),

    async prepare() {
      preparing = parts().then(({ spares }) => spares.prepare({ lowPriority: true }))
      await preparing
    },

    useCertificates: certificates.use,

    async provision(id, { passwordVerifier, signal }) {
      const { home, spares, ports } = await parts()
      const directory = instanceDirectory(home, id)
      await createCluster(home, directory, async (staging, runAs) => {
        traceStep('provision.taking_cluster', id)
        await spares.take(staging, runAs.account)
      })
      signal.throwIfAborted()
      traceStep('provision.starting', id)
      const port = await ports.portFor(directory.path)
      const instance = await run(home, id, { port }, signal).catch(forgetTakenPort(directory))
      traceStep('provision.setting_password', id)
      await setOwnerPassword(instance.control(), passwordVerifier, signal)
      const at = await address(port, signal)
      // For the next one, and not earlier: it would slow this one down.
      preparing = spares.prepare().catch(() => {})
      return at
    },

    async restore(id, { archive, wal, passwordVerifier, bytesMax, onProgress, signal }) {
      const { home, ports } = await parts()
      const directory = instanceDirectory(home, id)
      traceStep('restore.unpacking', id)
      await createCluster(home, directory, async (staging, runAs) => {
        await unpack(home, runAs, archive, staging, { bytesMax, onProgress, signal })
        if (wal !== undefined) await prepareRecovery(staging, wal.files, { ...runAs, signal })
      })
      signal.throwIfAborted()
      const port = await ports.portFor(directory.path)
      traceStep('restore.recovering', id)
      // No TCP until the password of the source is replaced, so that it never works here.
      await halt(id)
      const start = (settings: Readonly<Record<string, string>>) =>
        run(home, id, { port, host: null, settings }, signal)
      const instance = await (wal === undefined ? start({}) : recover(start, wal.to))
      if (wal !== undefined) await checkReplayed(instance.control(), wal.committed, signal)
      if (passwordVerifier !== null) await setOwnerPassword(instance.control(), passwordVerifier, signal)
      traceStep('restore.restarting', id)
      await halt(id)
      await run(home, id, { port }, signal).catch(forgetTakenPort(directory))
      return address(port, signal)
    },

    backup(id, { bytesMax, onProgress, signal }) {
      const instance = serverOf(id)
      return writeArchive(async (archive) => {
        const cluster = await treeOf(id)
        const control = instance.control()
        const session = { name: 'keyhook backup', signal, statementMsMax: options.backupStatementMsMax }
        const socket = socketNameOf(control.port)
        return withControl(control, session, (sql) =>
          baseBackup(archive, { id, cluster, socket, sql, bytesMax, onProgress, signal }).catch((error: unknown) => {
            // An aborted connection has an error of its own; the reason of the signal is the better one.
            signal.throwIfAborted()
            throw explainBackupError(error)
          }),
        )
      })
    },

    async archiveWal(id, archiving) {
      return archiveWalOf(serverOf(id), await treeOf(id), archiving)
    },

    async remove(id) {
      const { home } = await parts()
      traceStep('remove.stopping', id)
      // The files are deleted next, and a session could delay a fast shutdown for ever.
      await halt(id, { immediate: true })
      const directory = instanceDirectory(home, id)
      const account = await home.uids?.accountOf(directory.path)
      const port = await readPort(directory.path)
      if (await hasCluster(directory)) {
        const socket = socketNameOf(port ?? options.ports.first)
        await stopOrphan(directory.cluster, { note() {}, socket, fastShutdownMsMax: 0 }).catch((error: unknown) => {
          // A lock file that the account replaced by something else says nothing, and must not prevent the removal.
          if (!(error instanceof NotAClusterFile)) throw error
        })
      }
      // A program that somebody started in the account would go on, and could have the uid of a later instance.
      if (account) await endProcessesOf(account)
      traceStep('remove.deleting_files', id)
      await removeDirectory(home, id)
      if (port !== null) await guard.release(port)
      held.delete(id)
      closed.delete(id)
      certificates.forget(id)
    },

    async closeToClients(id, { signal }) {
      const { home } = await parts()
      if (!closed.has(id) || !running.has(id)) await halt(id)
      closed.add(id)
      await run(home, id, { port: await portOf(id), host: null }, signal)
    },

    async openToClients(id, { signal }) {
      closed.delete(id)
      await halt(id)
      await resume(id, { signal })
    },

    async existing() {
      return instancesIn((await parts()).home)
    },

    async portProblem() {
      return (await parts()).home.uids === null ? 'databases have no user ids of their own' : guard.problem()
    },

    async activity(id, { signal }) {
      const instance = running.get(id)
      if (instance === undefined) throw new Error(`${id} is not running`)
      return readActivity(instance.control(), signal)
    },

    resume,

    async close() {
      closing.abort()
      certificates.close()
      pending.close()
      await preparing?.catch(() => {})
      await Promise.all([...running.keys()].map((id) => halt(id)))
      await guard.close()
      limiter?.close()
    },
  }
}
