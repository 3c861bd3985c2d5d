import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, onTestFinished } from 'vitest'
import { createDirectoryStore } from '../../../src/archives/directory-store.ts'
import { createAuthority, issueCertificate } from '../../../src/databases/certificates.ts'
import { scramVerifier } from '../../../src/databases/database.ts'
import { connectToKubernetes, createKubernetesApi } from '../../../src/databases/drivers/kubernetes/api.ts'
import {
  createKubernetesDriver,
  type KubernetesDriverOptions,
} from '../../../src/databases/drivers/kubernetes/kubernetes-driver.ts'
import { nodeOf } from '../../../src/databases/drivers/local/home.ts'
import { newId } from '../../../src/lib/ids.ts'
import { type KubeApiServer, kubernetesMissing, startKubeApiServer } from '../../kit/kube-apiserver.ts'
import { openInstances } from './local-instances.ts'
import { scratchFolder } from './platform.ts'
import { startSimulatedCloudNativePg } from './simulated-cloudnativepg.ts'

export const onKubernetes = `on a real Kubernetes API server, with a simulated CloudNativePG${kubernetesMissing === null ? '' : ` (skipped: ${kubernetesMissing})`}`
export { kubernetesMissing }

export const never = new AbortController().signal
const page = join(import.meta.dirname, '../../../../../docs/deploying.md')

const settings: KubernetesDriverOptions['settings'] = {
  instances: 1,
  storageBytes: 1024 ** 3,
  memoryBytes: 512 * 1024 ** 2,
  cpus: 1,
  storageClass: 'fast',
  image: null,
  service: 'LoadBalancer',
  tls: 'on',
  archiveSeconds: 60,
}
const objectStore: KubernetesDriverOptions['objectStore'] = {
  bucket: 'backups-bucket',
  prefix: null,
  endpoint: 'https://s3.example.com',
  region: 'eu-central-1',
  ca: null,
  credentials: { accessKeyId: 'key', secretAccessKey: 'secret' },
}
export const authority = createAuthority(new Date())

export const newDatabase = async (signal = never) => ({
  orgId: newId('org'),
  passwordVerifier: await scramVerifier('secret'),
  signal,
})
export const nameOf = (id: string): string => id.replace('_', '-')

/** One API server for the test file. `setUp` opens a driver in a new namespace of it, with a simulated CloudNativePG. */
export function kubernetesForFile() {
  let server: KubeApiServer
  let folder: string
  let namespaces = 0
  beforeAll(async () => {
    folder = await scratchFolder()
    server = await startKubeApiServer()
  })
  afterAll(async () => {
    await server?.close()
    await rm(folder, { recursive: true, force: true })
  })

  /** A namespace with the role of the documentation: Keyhook may do nothing else. */
  async function newNamespace(): Promise<string> {
    const namespace = `databases-${++namespaces}`
    await server.admin('POST', '/api/v1/namespaces', { metadata: { name: namespace } })
    const text = (await readFile(page, 'utf8')).split('```yaml\n').find((block) => block.includes('kind: Role\n'))!
    const role = text.slice(0, text.indexOf('```')).replace('namespace: keyhook-databases', `namespace: ${namespace}`)
    const rbac = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}`
    await server.admin('POST', `${rbac}/roles`, role)
    await server.admin('POST', `${rbac}/rolebindings`, {
      metadata: { name: 'keyhook' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'keyhook' },
      subjects: [{ kind: 'User', name: 'keyhook', apiGroup: 'rbac.authorization.k8s.io' }],
    })
    return namespace
  }

  async function setUp(more: Partial<KubernetesDriverOptions> = {}) {
    const namespace = await newNamespace()
    const bucket = more.store ?? createDirectoryStore(join(folder, namespace))
    const instances = openInstances((await nodeOf(join(folder, 'data'))).dataDir)
    const controller = startSimulatedCloudNativePg({ server, namespace, instances, bucket })
    const config = await server.kubeconfig('keyhook')
    const api = createKubernetesApi(namespace, () => connectToKubernetes(config))
    const open = () => {
      const driver = createKubernetesDriver({
        api,
        settings,
        objectStore,
        store: bucket,
        async issueCertificate(names) {
          const { certificate, key } = await authority
          return { ...(await issueCertificate({ certificate, key }, names, new Date())), authority: certificate }
        },
        readyMsMax: 120_000,
        onCertificateProblem() {},
        ...more,
      })
      onTestFinished(() => driver.close())
      return driver
    }
    onTestFinished(async () => {
      await controller.close()
      for (const id of await instances.existing()) await instances.remove(id)
      await instances.close()
    })
    const resource = (kind: string, name: string) =>
      server.admin('GET', `/apis/postgresql.cnpg.io/v1/namespaces/${namespace}/${kind}/${name}`)
    const secret = (name: string) => server.admin('GET', `/api/v1/namespaces/${namespace}/secrets/${name}`)
    return { server, driver: open(), open, api, namespace, bucket, controller, resource, secret }
  }
  return { setUp }
}
