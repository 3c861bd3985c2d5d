import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createS3Store } from '../../../src/archives/s3-store.ts'
import { type S3Server, s3Missing, s3Program, startS3Server } from '../../kit/s3-server.ts'
import { clientOf, type DatabaseBody } from '../support/customer.ts'
import { createKillable } from '../support/killable.ts'
import { kubernetesForFile, kubernetesMissing, onKubernetes } from '../support/kubernetes.ts'
import { startNode, startPlatform } from '../support/platform.ts'
import { s3Settings } from '../support/s3-settings.ts'

const missing = kubernetesMissing ?? (s3Program === null ? s3Missing : null)

describe.skipIf(missing !== null)(missing === null ? `the platform ${onKubernetes}` : `skipped: ${missing}`, () => {
  const { setUp } = kubernetesForFile()
  let s3: S3Server
  beforeAll(async () => {
    s3 = await startS3Server()
  })
  afterAll(() => s3?.close())

  async function environment() {
    const store = createS3Store({ ...s3.options, prefix: 'installation' })
    const { server, namespace, resource } = await setUp({ store })
    return {
      resource,
      settings: {
        ...s3Settings(s3),
        KEYHOOK_DATABASE_DRIVER: 'cloudnativepg',
        KEYHOOK_KUBERNETES_CONFIG: await server.kubeconfig('keyhook'),
        KEYHOOK_KUBERNETES_NAMESPACE: namespace,
        KEYHOOK_KUBERNETES_SERVICE: 'LoadBalancer',
      },
    }
  }

  test('two processes act for the same databases: what one created the other backs up, restores and removes', async () => {
    const { settings, resource } = await environment()
    const platform = await startPlatform(settings)
    onTestFinished(() => platform.close())
    const created = await platform.createDatabase('shop')
    await clientOf(created)`create table kept as select 7 as n`
    const { node, count } = await nodesOf(platform.db)
    expect([node, count]).toEqual([`kubernetes-${settings.KEYHOOK_KUBERNETES_NAMESPACE}`, 1])
    await startNode(platform, { environment: settings })
    expect((await nodesOf(platform.db)).count).toBe(1)
    const backup = await platform.takeBackup(created.id)
    expect(backup).toMatchObject({ status: 'completed', sha256: null })
    expect(backup.size_bytes).toBeGreaterThan(0)
    const { database } = await platform.restoreBackup(backup.id)
    expect(await clientOf(database)`select n from kept`).toEqual([{ n: 7 }])
    await platform.removeDatabase(created.id)
    await expect(resource('clusters', created.id.replace('_', '-'))).rejects.toThrow('not found')
    expect(await platform.eventsAbout('database_id', database.id)).toMatchObject([{ type: 'restore.completed' }])
  })

  test('a process that is killed while it creates or removes a database is followed by one that goes on', async () => {
    const { settings, resource } = await environment()
    const keyhook = await createKillable(settings)
    onTestFinished(() => keyhook.remove())
    await keyhook.start()
    await keyhook.killedAt('kubernetes.creating', () => keyhook.askForDatabase('shop'))
    await keyhook.start()
    const [{ id }] = await keyhook.get<[DatabaseBody]>('/databases')
    expect(await keyhook.settledDatabase(id)).toMatchObject({ status: 'available', host: '127.0.0.1' })
    await keyhook.killedAt('kubernetes.removing', () => keyhook.request(`/databases/${id}`, { method: 'DELETE' }))
    await keyhook.start()
    await keyhook.gone(`/databases/${id}`)
    await expect(resource('clusters', id.replace('_', '-'))).rejects.toThrow('not found')
  })
})

type Sql = Awaited<ReturnType<typeof startPlatform>>['db']

async function nodesOf(db: Sql): Promise<{ node: string; count: number }> {
  const rows = await db<{ id: string }[]>`select id from keyhook.nodes`
  return { node: rows[0]!.id, count: rows.length }
}
