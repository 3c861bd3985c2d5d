import { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import type { ArchiveStore } from '../../../archives/archive-store.ts'
import { traceStep } from '../../../jobs/worker.ts'
import type { DatabaseId } from '../../../lib/ids.ts'
import { StepFailure } from '../../../lib/step-failure.ts'
import { isDueForRenewal } from '../../certificates.ts'
import type { Address, DatabaseDriver } from '../driver.ts'
import type { KubernetesApi, Resource } from './api.ts'
import { createBackups } from './backups.ts'
import { explainNotReady } from './problems.ts'
import {
  type Cluster,
  type ClusterSettings,
  cluster,
  clusters,
  databaseIn,
  events,
  nameOf,
  type ObjectStoreSettings,
  objectStore,
  objectStores,
  ofKeyhook,
  passwordSecret,
  passwordSecretOf,
  type Secret,
  type Service,
  secrets,
  serviceOf,
  services,
  storeSecret,
  tlsSecret,
  tlsSecretOf,
} from './resources.ts'

const gone = 'The database was deleted.'

/** Phases of CloudNativePG that it does not leave by itself. */
const hopeless = /^(Cluster is unrecoverable|Invalid cluster definition)/

export type KubernetesDriverOptions = {
  api: KubernetesApi
  settings: ClusterSettings
  objectStore: ObjectStoreSettings
  /** The same bucket, as Keyhook sees it. */
  store: ArchiveStore
  issueCertificate: (names: readonly string[]) => Promise<{ certificate: string; key: string; authority: string }>
  readyMsMax: number
  onCertificateProblem: (id: DatabaseId, error: unknown) => void
  renewEveryMs?: number
}

/** Any process may act for any database: every call states what should be, and waits until CloudNativePG says that it is (docs/deploying.md). */
export function createKubernetesDriver(options: KubernetesDriverOptions): DatabaseDriver {
  const { api, settings, store } = options
  const hasOwnTls = settings.tls !== 'off'
  let storeReady: Promise<void> | undefined

  /** Once in each process, so that changed settings reach the resource. */
  const ensureStore = () => {
    storeReady ??= (async () => {
      await api.apply(secrets, storeSecret(options.objectStore))
      await api.apply(objectStores, objectStore(options.objectStore))
    })().catch((error: unknown) => {
      storeReady = undefined
      throw error
    })
    return storeReady
  }

  async function create(id: DatabaseId, wanted: Cluster, password: Resource, signal: AbortSignal): Promise<Address> {
    signal.throwIfAborted()
    await ensureStore()
    if (hasOwnTls) await ensureCertificate(options, id)
    const { metadata } = await api.apply(secrets, password, { signal })
    traceStep('kubernetes.creating', id)
    const { metadata: made } = await api.apply(clusters, wanted, { signal })
    await untilReady(id, { uid: made.uid, secretVersion: metadata.resourceVersion }, signal)
    return addressOf(id, signal)
  }

  /** Until all instances are up, and CloudNativePG has read the password that was written last. */
  async function untilReady(
    id: DatabaseId,
    expected: { uid: string | undefined; secretVersion: string | undefined },
    signal: AbortSignal,
  ): Promise<void> {
    const limit = AbortSignal.timeout(options.readyMsMax)
    let phase: string | undefined
    const look = (found: Cluster | null): true | undefined => {
      // Another uid: removed, and created again by somebody else.
      if (found === null || found.metadata.deletionTimestamp || found.metadata.uid !== expected.uid) {
        throw new StepFailure(gone, { permanent: true })
      }
      const { status } = found
      phase = [status?.phase, status?.phaseReason].filter(Boolean).join(': ')
      if (hopeless.test(phase)) {
        throw new StepFailure('PostgreSQL cannot run with it.', { cause: new Error(phase), permanent: true })
      }
      const isReady = status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True')
      const version = status?.secretsResourceVersion?.applicationSecretVersion
      return isReady && version === expected.secretVersion ? true : undefined
    }
    try {
      await api.watchUntil<Cluster, true>(clusters, nameOf(id), look, { signal: AbortSignal.any([signal, limit]) })
    } catch (error) {
      signal.throwIfAborted()
      if (!limit.aborted) throw error
      const { text, detail } = explainNotReady(phase, await warningsOf(id))
      throw new StepFailure(text, { cause: new Error(`${nameOf(id)} is not ready: ${detail}`) })
    }
  }

  type Warning = Resource & {
    involvedObject: { name: string }
    reason: string
    message: string
    lastTimestamp?: string
  }

  /** Of the cluster, its pods, jobs and volumes, whose names all begin with its own. */
  async function warningsOf(id: DatabaseId): Promise<Warning[]> {
    const all = await api.list<Warning>(events, { fields: 'type=Warning' }).catch(() => [])
    const own = all.filter(({ involvedObject }) => involvedObject.name.startsWith(nameOf(id)))
    return own.sort((a, b) => (b.lastTimestamp ?? '').localeCompare(a.lastTimestamp ?? '')).slice(0, 10)
  }

  async function addressOf(id: DatabaseId, signal: AbortSignal): Promise<Address> {
    const type = settings.service
    const name = serviceOf(id, type)
    const limit = AbortSignal.timeout(options.readyMsMax)
    const look = (found: Service | null): Address | undefined => {
      const port = found?.spec.ports?.find(({ name: one }) => one === undefined || one === 'postgres')?.port
      const outside = found?.status?.loadBalancer?.ingress?.[0]
      const host = type === 'ClusterIP' ? `${name}.${api.namespace}.svc` : (outside?.hostname ?? outside?.ip)
      return port === undefined || host === undefined ? undefined : { host, port }
    }
    const waiting = { signal: AbortSignal.any([signal, limit]) }
    const address = await api.watchUntil<Service, Address>(services, name, look, waiting).catch((error: unknown) => {
      signal.throwIfAborted()
      if (!limit.aborted) throw error
      throw new StepFailure('It got no address.', { cause: new Error(`the service ${name} has no address`) })
    })
    if (hasOwnTls) await ensureCertificate(options, id, address.host)
    return address
  }

  async function existing(): Promise<DatabaseId[]> {
    const found = [
      ...(await api.list(clusters, { labels: ofKeyhook })),
      ...(await api.list(secrets, { labels: ofKeyhook })),
    ]
    return [...new Set(found.map(databaseIn))].filter((id) => id !== null)
  }

  /** Also of databases whose Keyhook process ended since. A certificate lasts for months, so the interval hardly matters. */
  async function renewCertificates(): Promise<void> {
    for (const found of await api.list(clusters, { labels: ofKeyhook })) {
      const id = databaseIn(found)
      if (id === null) continue
      await addressOf(id, AbortSignal.timeout(60_000)).catch((error) => options.onCertificateProblem(id, error))
    }
  }
  const renewing = setInterval(
    () => void renewCertificates().catch(() => {}),
    options.renewEveryMs ?? 12 * 60 * 60 * 1_000,
  ).unref()

  const backups = createBackups({ api, store, archiveSeconds: settings.archiveSeconds })
  const { eraseBackups, ...backupDriver } = backups.driver

  async function remove(id: DatabaseId): Promise<void> {
    traceStep('kubernetes.removing', id)
    await api.remove(clusters, nameOf(id))
    const isGone = (found: Cluster | null) => (found === null ? true : undefined)
    const limit = { signal: AbortSignal.timeout(options.readyMsMax) }
    await api.watchUntil<Cluster, true>(clusters, nameOf(id), isGone, limit)
    for (const secret of [passwordSecretOf(id), tlsSecretOf(id)]) await api.remove(secrets, secret)
  }

  return {
    ...backupDriver,
    remove,
    async erase(id) {
      await remove(id)
      return eraseBackups(id)
    },
    existing,
    moving: null,

    provision: (id, wanted) => create(id, cluster(id, wanted, settings), passwordSecret(id, wanted), wanted.signal),

    async restore(id, { from, to, ...wanted }) {
      const backupId = await backups.find(from)
      const restored = cluster(id, wanted, settings, { databaseId: from.databaseId, backupId, to })
      return create(id, restored, passwordSecret(id, wanted), wanted.signal)
    },

    async resume(id, { signal }) {
      if ((await api.get(clusters, nameOf(id), { signal })) === null) {
        throw new Error(`there is no ${nameOf(id)} in the namespace ${api.namespace}`)
      }
      return addressOf(id, signal)
    },

    async close() {
      clearInterval(renewing)
    },
  }
}

/** The names of a database inside of the Kubernetes cluster. */
const innerNames = (id: DatabaseId, namespace: string): string[] => {
  const service = serviceOf(id, 'ClusterIP')
  const full = `${service}.${namespace}.svc`
  return [full, service, `${service}.${namespace}`, `${full}.cluster.local`]
}

/** In a secret, from which CloudNativePG loads it, also after a renewal. `host`: the address from outside, once it is known. */
async function ensureCertificate(
  { api, issueCertificate }: Pick<KubernetesDriverOptions, 'api' | 'issueCertificate'>,
  id: DatabaseId,
  host?: string,
): Promise<void> {
  const names = innerNames(id, api.namespace)
  if (host !== undefined && !names.includes(host)) names.unshift(host)
  const found = await api.get<Secret>(secrets, tlsSecretOf(id))
  const stored = found?.data?.['tls.crt']
  if (stored !== undefined && isUsable(Buffer.from(stored, 'base64').toString(), names)) return
  await api.apply(secrets, tlsSecret(id, await issueCertificate(names)))
}

function isUsable(certificate: string, names: readonly string[]): boolean {
  const own = new X509Certificate(certificate)
  const covers = (name: string) => (isIP(name) === 0 ? own.checkHost(name) : own.checkIP(name)) !== undefined
  return names.every(covers) && !isDueForRenewal(certificate, new Date())
}
