import { describe, expect, test } from 'vitest'
import {
  connectToKubernetes,
  createKubernetesApi,
  type Resource,
} from '../../../src/databases/drivers/kubernetes/api.ts'
import { clusters } from '../../../src/databases/drivers/kubernetes/resources.ts'
import { newId } from '../../../src/lib/ids.ts'
import type { StepFailure } from '../../../src/lib/step-failure.ts'
import type { KubeApiServer } from '../../kit/kube-apiserver.ts'
import { until } from '../../kit/until.ts'
import {
  kubernetesForFile,
  kubernetesMissing,
  nameOf,
  never,
  newDatabase,
  onKubernetes,
} from '../support/kubernetes.ts'

describe.skipIf(kubernetesMissing !== null)(onKubernetes, () => {
  const { setUp } = kubernetesForFile()

  test('a field that the API server does not know is rejected, and not ignored', async () => {
    const { api } = await setUp()
    const typo = { metadata: { name: 'typo' }, spec: { instances: 1, storage: { size: '1Gi' }, instancez: 3 } }
    const applying = api.apply(clusters, typo)
    await expect(applying).rejects.toMatchObject({
      permanent: true,
      message: 'The Kubernetes cluster rejected the database.',
    })
    await expect(applying).rejects.toHaveProperty('cause.message', expect.stringContaining('instancez'))
    const invalid = api.apply(clusters, {
      metadata: { name: 'few' },
      spec: { instances: 0, storage: { size: '1Gi' } },
    } as never)
    await expect(invalid).rejects.toHaveProperty('cause.message', expect.stringContaining('spec.instances'))
  })

  test('a quota, a missing permission and a missing definition each have their own words', async () => {
    const { server, driver, namespace } = await setUp()
    const quotas = `/api/v1/namespaces/${namespace}/resourcequotas`
    const hard = { 'count/clusters.postgresql.cnpg.io': '0' }
    await server.admin('POST', quotas, { metadata: { name: 'none' }, spec: { hard } })
    // Kubernetes' own quota controller would write this.
    const used = { 'count/clusters.postgresql.cnpg.io': '0' }
    await server.admin('PATCH', `${quotas}/none/status`, { status: { hard, used } })
    const wanted = await newDatabase()
    await expect(
      until(
        () => driver.provision(newId('db'), wanted).catch((error) => error),
        (error) => /quota/.test(error?.cause?.message ?? ''),
      ),
    ).resolves.toMatchObject({ message: 'The Kubernetes cluster has no room for it.' })
    await server.admin('DELETE', `${quotas}/none`)
    await server.admin('DELETE', `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}/rolebindings/keyhook`)
    const forbidden = await until(
      () => driver.existing().catch((error) => error),
      (error) => error instanceof Error,
    )
    expect(forbidden).toMatchObject({ message: 'Keyhook may not do this in the Kubernetes cluster.' })
    expect((forbidden as Error & { cause: Error }).cause.message).toContain('cannot list resource "clusters"')
    const unknown = { apiVersion: 'v1', kind: 'Nothing', plural: 'nothings' }
    const asAdmin = createKubernetesApi(namespace, async () => connectToKubernetes(await server.kubeconfig('admin')))
    await expect(asAdmin.list(unknown, {})).rejects.toThrow('not prepared for databases')
  })

  test('a database that cannot become ready fails with the reason that Kubernetes gives', async () => {
    const { driver, controller } = await setUp({ readyMsMax: 3_000 })
    const message = '0/3 nodes are available: 3 Insufficient memory.'
    controller.stick({ phase: 'Setting up primary', reason: 'FailedScheduling', message })
    const id = newId('db')
    const wanted = await newDatabase()
    // Repeated, because the event may come later than the time limit on a slow machine.
    const failure = (isExpected: (error: StepFailure) => boolean) =>
      until(
        () =>
          driver.provision(id, wanted).then(
            () => null,
            (error: StepFailure) => error,
          ),
        (error) => error !== null && isExpected(error),
      )
    const noRoom = await failure(({ cause }) => String(cause).includes('Insufficient memory'))
    expect(noRoom).toMatchObject({ message: 'The Kubernetes cluster has no room for it.', permanent: false })
    controller.stick({ phase: 'Cluster is unrecoverable and needs manual intervention', reason: 'x', message: 'x' })
    expect(await failure(({ permanent }) => permanent)).toMatchObject({ message: 'PostgreSQL cannot run with it.' })
    await driver.remove(id)
  })

  test('a database that is removed while it is provisioned, by another process, stays removed', async () => {
    const { driver, open, controller, resource } = await setUp()
    controller.pause()
    const id = newId('db')
    const provisioning = driver.provision(id, await newDatabase())
    provisioning.catch(() => {})
    const other = open()
    await until(
      () => resource('clusters', nameOf(id)).catch(() => null),
      (found) => found !== null,
    )
    const removing = other.remove(id)
    controller.resume()
    await removing
    await expect(provisioning).rejects.toMatchObject({ message: 'The database was deleted.', permanent: true })
    expect(await other.existing()).toEqual([])
  })

  test('an API server that is killed while a database is provisioned only delays it', async () => {
    const { server, driver, controller, resource } = await setUp()
    controller.pause()
    const id = newId('db')
    const provisioning = driver.provision(id, await newDatabase())
    provisioning.catch(() => {})
    await until(
      () => resource('clusters', nameOf(id)).catch(() => null),
      (found) => found !== null,
    )
    const start = await server.kill()
    await expect(driver.existing()).rejects.toThrow('cannot be reached')
    await start()
    controller.resume()
    expect(await provisioning).toMatchObject({ host: '127.0.0.1' })
  })

  test('a watch whose version was forgotten (410) reads again and goes on', async () => {
    const { server, api, namespace, controller } = await setUp()
    controller.pause()
    const watched = (n: string) => ({
      metadata: { name: 'watched', annotations: { n } },
      spec: { instances: 1, storage: { size: '1Gi' } },
    })
    await api.apply(clusters, watched(''))
    await api.apply(clusters, watched('0'))
    await compact(server)
    const path = `/apis/postgresql.cnpg.io/v1/namespaces/${namespace}/clusters`
    const old = await server.admin('GET', `${path}?watch=true&resourceVersion=1&timeoutSeconds=5`).catch((e) => e)
    expect(old.status ?? old.object.code).toBe(410)
    let reads = 0
    const look = (found: Resource | null): string | undefined => {
      // As if the first answer had come long ago.
      if (++reads === 1) found!.metadata.resourceVersion = '1'
      const n = found?.metadata.annotations?.n
      return n === '1' ? n : undefined
    }
    const watching = api.watchUntil<Resource, string>(clusters, 'watched', look, { signal: never })
    await until(
      async () => reads,
      (count) => count >= 2,
    )
    await api.apply(clusters, watched('1'))
    expect(await watching).toBe('1')
  })
})

/** Forgets all earlier versions, as Kubernetes does every five minutes. */
async function compact({ etcdUrl }: KubeApiServer): Promise<void> {
  const post = (path: string, body: object) =>
    fetch(`${etcdUrl}/v3/kv/${path}`, { method: 'POST', body: JSON.stringify(body) }).then((answer) => answer.json())
  const { header } = (await post('range', { key: Buffer.from('x').toString('base64') })) as {
    header: { revision: string }
  }
  await post('compaction', { revision: header.revision, physical: true })
}
