import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { settings } from '../../src/settings/config.ts'
import { type KubeApiServer, kubernetesMissing, startKubeApiServer } from '../kit/kube-apiserver.ts'
import '../kit/server-limits.ts'

/*
 * The chart in deploy/helm. Helm is one program: `go install helm.sh/helm/v3/cmd/helm@v3.17.3`. KEYHOOK_TEST_HELM names it if it is not in
 * PATH.
 */

const chart = fileURLToPath(new URL('../../../../deploy/helm/keyhook', import.meta.url))
const helm = process.env.KEYHOOK_TEST_HELM || 'helm'
const run = (...args: string[]) => spawnSync(helm, args, { encoding: 'utf8' })
// A Helm that Go built assumes an old version of Kubernetes.
const version = ['--kube-version', '1.33.0']
const isInstalled = run('version').status === 0
const everything = [
  ...['serviceMonitor.enabled=true', 'ingress.enabled=true', 'ingress.className=nginx', 'ingress.tlsSecret=tls'],
  ...['databases.enabled=true', 'publicUrl=https://keyhook.example.com', 'trustedProxies=10.0.0.0/8'],
  ...[
    'settings.KEYHOOK_RETENTION_DAYS=90',
    'settings.KEYHOOK_S3_BUCKET=backups',
    'podAnnotations.a=b',
    'nodeSelector.c=d',
  ],
].flatMap((value) => ['--set', value])

/** The resources that Helm would send, as YAML texts. */
function rendered(...args: string[]): string[] {
  const { status, stdout, stderr } = run('template', 'kh', chart, '--namespace', 'default', ...version, ...args)
  expect([status, stderr]).toEqual([0, ''])
  return stdout.split(/^---$/m).filter((text) => /^kind:/m.test(text))
}

const field = (text: string, name: string) => new RegExp(`^ *${name}: (.*)$`, 'm').exec(text)?.[1]
const kinds = (resources: string[]) => resources.map((text) => field(text, 'kind')).sort()

describe.skipIf(!isInstalled)(isInstalled ? 'the chart' : 'the chart (not run: helm is not installed)', () => {
  test('helm lint accepts it, with the defaults and with everything on', () => {
    for (const values of [[], everything]) {
      const { status, stdout } = run('lint', '--strict', chart, ...values)
      expect([status, stdout]).toEqual([0, expect.stringContaining('1 chart(s) linted, 0 chart(s) failed')])
    }
  })

  test('by default it is an API and dispatchers, without rights in the cluster', () => {
    const resources = rendered()
    expect(kinds(resources)).toEqual([
      ...['Deployment', 'Deployment', 'PodDisruptionBudget', 'PodDisruptionBudget'],
      ...['Service', 'Service', 'ServiceAccount'],
    ])
    const pods = resources.filter((text) => field(text, 'kind') === 'Deployment')
    expect(pods.map((text) => field(text, 'args'))).toEqual(['[serve, --role, api]', '[serve, --role, dispatcher]'])
  })

  test('every pod runs without root, on a read-only file system, with secrets from files and known settings', () => {
    const known = Object.values(settings).map(({ variable }) => variable)
    const pods = rendered(...everything).filter((text) => field(text, 'kind') === 'Deployment')
    expect(pods).toHaveLength(3)
    for (const pod of pods) {
      for (const line of ['runAsNonRoot: true', 'readOnlyRootFilesystem: true', 'allowPrivilegeEscalation: false'])
        expect(pod).toContain(line)
      const names = [...pod.matchAll(/^ +- name: ([A-Z_0-9]+)$/gm)].map(([, name]) => name!)
      expect(names.length).toBeGreaterThan(5)
      for (const name of names) expect(known, name).toContain(name.replace(/_FILE$/, ''))
    }
    const withToken = pods.filter((pod) => pod.includes('automountServiceAccountToken: true'))
    expect(withToken.map((text) => field(text, 'args'))).toEqual(['[serve, --role, jobs]'])
  })

  test('it refuses values that are misspelled, and secrets among the settings', () => {
    for (const value of ['replicas=2', 'settings.KEYHOOK_MASTER_KEY=x', 'existingSecret=', 'service.port=0']) {
      const { status, stderr } = run('template', 'kh', chart, ...version, '--set', value)
      expect([status, stderr], value).toEqual([1, expect.stringContaining("values don't meet the specifications")])
    }
  })

  describe.skipIf(kubernetesMissing !== null)(kubernetesMissing ?? 'on a real Kubernetes API server', () => {
    let kubernetes: KubeApiServer
    beforeAll(async () => {
      kubernetes = await startKubeApiServer()
      await kubernetes.admin('POST', '/api/v1/namespaces', { metadata: { name: 'keyhook-databases' } })
    })
    afterAll(() => kubernetes?.close())

    test('every resource is accepted, strictly (ServiceMonitor apart, whose definition is not there)', async () => {
      const paths: Record<string, string> = {
        Deployment: '/apis/apps/v1/namespaces/default/deployments',
        Ingress: '/apis/networking.k8s.io/v1/namespaces/default/ingresses',
        PodDisruptionBudget: '/apis/policy/v1/namespaces/default/poddisruptionbudgets',
        Role: '/apis/rbac.authorization.k8s.io/v1/namespaces/keyhook-databases/roles',
        RoleBinding: '/apis/rbac.authorization.k8s.io/v1/namespaces/keyhook-databases/rolebindings',
        Service: '/api/v1/namespaces/default/services',
        ServiceAccount: '/api/v1/namespaces/default/serviceaccounts',
      }
      const resources = rendered(...everything).filter((text) => field(text, 'kind') !== 'ServiceMonitor')
      expect(new Set(kinds(resources))).toEqual(new Set(Object.keys(paths)))
      for (const text of resources) {
        await kubernetes.admin('POST', `${paths[field(text, 'kind')!]}?dryRun=All&fieldValidation=Strict`, text)
      }
    })
  })
})
