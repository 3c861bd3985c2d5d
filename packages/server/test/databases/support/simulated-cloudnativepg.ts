import { setTimeout as sleep } from 'node:timers/promises'
import type { ArchiveStore } from '../../../src/archives/archive-store.ts'
import type { LocalInstances } from '../../../src/databases/drivers/driver.ts'
import type { DatabaseId } from '../../../src/lib/ids.ts'
import type { AnyResource, KubeApiServer } from '../../kit/kube-apiserver.ts'

const unlimited = { bytesMax: Number.POSITIVE_INFINITY }

/*
 * A SIMULATED controller. No container runs in these tests: this stands for CloudNativePG and its Barman plugin. It sets the fields of the
 * status that they set, as read in their source, and backs every Cluster with a real PostgreSQL server of this machine, so that addresses,
 * passwords, backups and restores are real. It shows what Keyhook does, and nothing about CloudNativePG.
 */
const group = '/apis/postgresql.cnpg.io/v1'
const finalizer = 'keyhook.test/simulated'
const passMs = 50
const never = new AbortController().signal

export function startSimulatedCloudNativePg(deps: {
  server: KubeApiServer
  namespace: string
  instances: LocalInstances
  bucket: ArchiveStore
}) {
  const { instances, bucket } = deps
  const { admin } = deps.server
  const at = (kind: string, name = '') => `${group}/namespaces/${deps.namespace}/${kind}/${name}`
  const core = (kind: string, name = '') => `/api/v1/namespaces/${deps.namespace}/${kind}/${name}`
  const running = new Map<string, { id: DatabaseId; secretVersion: string }>()
  const closing = new AbortController()
  let isPaused = false
  /** Clusters that stay as they are, with this phase and this warning. */
  let stuck: { phase: string; reason: string; message: string } | null = null
  let takesBackups = true

  /** Of the cluster that is started next; the local instances are given it all alike. */
  let certificate = { certificate: '', key: '' }
  instances.useCertificates(async () => certificate)

  const textIn = (secret: AnyResource, key: string) => Buffer.from(secret.data[key], 'base64').toString()
  const verifierIn = (secret: AnyResource): string => textIn(secret, 'password')
  const status = (kind: string, name: string, fields: object) =>
    admin('PATCH', `${at(kind, name)}/status`, { status: fields })

  async function reconcileCluster(cluster: AnyResource): Promise<void> {
    const { name, labels, deletionTimestamp, finalizers = [] } = cluster.metadata
    const id = labels['keyhook.io/database-id'] as DatabaseId
    if (deletionTimestamp) {
      await instances.remove(id)
      running.delete(name)
      for (const service of [`${name}-rw`, `${name}-public`])
        await admin('DELETE', core('services', service)).catch(ignore)
      await admin('PATCH', at('clusters', name), { metadata: { finalizers: null } })
      return
    }
    if (!finalizers.includes(finalizer))
      await admin('PATCH', at('clusters', name), { metadata: { finalizers: [finalizer] } })
    if (stuck !== null) return reportStuck(cluster)
    const { initdb, recovery } = cluster.spec.bootstrap
    const secret = await admin('GET', core('secrets', (initdb ?? recovery).secret.name))
    const secretVersion = secret.metadata.resourceVersion
    if (running.get(name)?.secretVersion === secretVersion) return
    const tls = await admin('GET', core('secrets', cluster.spec.certificates.serverTLSSecret))
    certificate = { certificate: textIn(tls, 'tls.crt'), key: textIn(tls, 'tls.key') }
    await status('clusters', name, { phase: 'Setting up primary' })
    const address =
      recovery === undefined || running.has(name)
        ? await instances.provision(id, { passwordVerifier: verifierIn(secret), signal: never })
        : await restore(id, cluster, verifierIn(secret))
    running.set(name, { id, secretVersion })
    await expose(name, cluster, address.port)
    await status('clusters', name, {
      phase: 'Cluster in healthy state',
      readyInstances: cluster.spec.instances,
      secretsResourceVersion: { applicationSecretVersion: secretVersion },
      conditions: [
        condition('Ready', 'ClusterIsReady'),
        condition('ContinuousArchiving', 'ContinuousArchivingSuccess'),
      ],
    })
  }

  async function restore(id: DatabaseId, cluster: AnyResource, passwordVerifier: string) {
    const [{ plugin }] = cluster.spec.externalClusters
    const { backupID } = cluster.spec.bootstrap.recovery.recoveryTarget
    const archive = bucket.get(`kubernetes/${plugin.parameters.serverName}/base/${backupID}/data.tar.gz`)
    return instances.restore(id, { archive, passwordVerifier, ...unlimited, onProgress() {}, signal: never })
  }

  /** The ports differ because all databases are on this machine; CloudNativePG's are always 5432. */
  async function expose(name: string, cluster: AnyResource, port: number): Promise<void> {
    const service = (service: string, type: string) => ({
      metadata: { name: service },
      spec: { type, ports: [{ name: 'postgres', port, protocol: 'TCP' }] },
    })
    await admin('POST', core('services'), service(`${name}-rw`, 'ClusterIP')).catch(unlessExists)
    for (const { serviceTemplate } of cluster.spec.managed?.services?.additional ?? []) {
      const outside = serviceTemplate.metadata.name
      await admin('POST', core('services'), service(outside, serviceTemplate.spec.type)).catch(unlessExists)
      await admin('PATCH', `${core('services', outside)}/status`, {
        status: { loadBalancer: { ingress: [{ ip: '127.0.0.1' }] } },
      })
    }
  }

  async function reportStuck({ metadata: { name, uid }, status: before }: AnyResource): Promise<void> {
    const { phase, reason, message } = stuck!
    if (before?.phase === phase) return
    await status('clusters', name, { phase })
    const involvedObject = { kind: 'Pod', name: `${name}-1`, namespace: deps.namespace, uid }
    const metadata = { generateName: `${name}-`, namespace: deps.namespace }
    await admin('POST', core('events'), { metadata, involvedObject, type: 'Warning', reason, message })
  }

  async function reconcileBackup(backup: AnyResource): Promise<void> {
    if (backup.status?.phase !== undefined || backup.metadata.deletionTimestamp) return
    const { name, labels } = backup.metadata
    const server = backup.spec.cluster.name
    await status('backups', name, { phase: 'running', startedAt: new Date().toISOString() })
    if (!takesBackups) {
      await status('backups', name, { phase: 'failed', error: 'the simulated store is full' })
      return
    }
    const barmanId = name.slice(-15)
    const base = `kubernetes/${server}/base/${barmanId}`
    const content = instances.backup(labels['keyhook.io/database-id'], { ...unlimited, onProgress() {}, signal: never })
    await bucket.put(`${base}/data.tar.gz`, content)
    await bucket.put(`kubernetes/${server}/wals/0000000100000000/000000010000000000000002.gz`, one('wal'))
    await bucket.put(`${base}/backup.info`, one('status=DONE'))
    const stoppedAt = new Date().toISOString()
    const lsn = { beginLSN: '0/2000028', endLSN: '0/2000120', beginWal: '000000010000000000000002' }
    await status('backups', name, { phase: 'completed', backupId: barmanId, stoppedAt, ...lsn }).catch(unlessMissing)
  }

  async function pass(): Promise<void> {
    for (const cluster of (await admin('GET', at('clusters'))).items) await reconcileCluster(cluster)
    for (const backup of (await admin('GET', at('backups'))).items) await reconcileBackup(backup)
  }

  const looping = (async () => {
    while (!closing.signal.aborted) {
      // What a test deletes or stops meanwhile is tried again in the next pass.
      if (!isPaused) await pass().catch(ignore)
      await sleep(passMs)
    }
  })()

  return {
    pause: () => (isPaused = true),
    resume: () => (isPaused = false),
    stick: (how: typeof stuck) => (stuck = how),
    failBackups: (fails: boolean) => (takesBackups = !fails),
    async close() {
      closing.abort()
      await looping
    },
  }
}

const condition = (type: string, reason: string) => ({
  type,
  reason,
  status: 'True',
  message: 'simulated',
  lastTransitionTime: new Date().toISOString(),
})
const ignore = (): void => {}
const unlessExists = (error: { status?: number }): void => {
  if (error.status !== 409) throw error
}
const unlessMissing = (error: { status?: number }): void => {
  if (error.status !== 404) throw error
}
async function* one(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text)
}
