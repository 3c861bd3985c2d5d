import { X509Certificate } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { newId } from '../../../src/lib/ids.ts'
import { until } from '../../kit/until.ts'
import { driverConformance } from '../driver-conformance.ts'
import {
  authority,
  kubernetesForFile,
  kubernetesMissing,
  nameOf,
  never,
  newDatabase,
  onKubernetes,
} from '../support/kubernetes.ts'

describe.skipIf(kubernetesMissing !== null)(onKubernetes, () => {
  const { setUp } = kubernetesForFile()

  driverConformance('CloudNativePG, simulated', async () => {
    const { driver, open, bucket } = await setUp()
    return {
      driver,
      reopen: async () => open(),
      async damage({ databaseId, backupId }) {
        await bucket.remove(`kubernetes/${nameOf(databaseId)}/base/${nameOf(backupId).slice(-15)}/backup.info`)
      },
    }
  })

  test('a database is a Cluster with its limits, its labels and a certificate of ours, and nothing is left of it', async () => {
    const { driver, namespace, resource, secret } = await setUp()
    const id = newId('db')
    const wanted = await newDatabase()
    const { host } = await driver.provision(id, wanted)
    const { metadata, spec } = await resource('clusters', nameOf(id))
    expect(metadata.labels).toMatchObject({
      'keyhook.io/database-id': id,
      'keyhook.io/organization-id': wanted.orgId,
    })
    expect(spec).toMatchObject({
      instances: 1,
      enableSuperuserAccess: false,
      storage: { size: String(1024 ** 3), storageClass: 'fast' },
      resources: { limits: { memory: String(512 * 1024 ** 2), cpu: '1' } },
    })
    const password = await secret(`${nameOf(id)}-password`)
    expect(Buffer.from(password.data.password, 'base64').toString()).toBe(wanted.passwordVerifier)
    const tls = await secret(`${nameOf(id)}-tls`)
    const certificate = new X509Certificate(Buffer.from(tls.data['tls.crt'], 'base64'))
    expect(certificate.checkIP(host)).toBe(host)
    expect(certificate.checkHost(`${nameOf(id)}-rw.${namespace}.svc`)).toBeDefined()
    expect(certificate.verify(new X509Certificate((await authority).certificate).publicKey)).toBe(true)
    await driver.remove(id)
    await expect(resource('clusters', nameOf(id))).rejects.toThrow('not found')
    for (const name of ['password', 'tls']) await expect(secret(`${nameOf(id)}-${name}`)).rejects.toThrow('not found')
  })

  test('a restore to a time asks CloudNativePG for that time, from that backup', async () => {
    const { driver, controller, resource } = await setUp()
    const [databaseId, backupId, copy] = [newId('db'), newId('bak'), newId('db')]
    await driver.provision(databaseId, await newDatabase())
    const stored = await driver.backup(
      { databaseId, backupId },
      { bytesMax: Number.POSITIVE_INFINITY, onProgress() {}, signal: never },
    )
    expect(stored.wal).toMatchObject({ start_lsn: '0/2000028', stop_lsn: '0/2000120' })
    expect(await driver.archiveWal(databaseId, { after: null, isEncrypted: false, signal: never })).toMatchObject({
      from: '0/0',
    })
    controller.pause()
    const abort = new AbortController()
    const to = new Date('2026-11-17T10:00:00.250Z')
    const restoring = driver.restore(copy, {
      ...(await newDatabase(abort.signal)),
      from: { databaseId, backupId, sha256: null, keyId: null },
      to,
      bytesMax: Number.POSITIVE_INFINITY,
      onProgress() {},
    })
    restoring.catch(() => {})
    const { spec } = await until(
      () => resource('clusters', nameOf(copy)).catch(() => null),
      (found) => found !== null,
    )
    expect(spec.bootstrap.recovery).toMatchObject({
      source: 'source',
      database: 'app',
      owner: 'app',
      secret: { name: `${nameOf(copy)}-password` },
      recoveryTarget: { backupID: nameOf(backupId).slice(-15), targetTime: '2026-11-17T10:00:00.250Z' },
    })
    expect(spec.externalClusters[0].plugin.parameters.serverName).toBe(nameOf(databaseId))
    abort.abort()
    await expect(restoring).rejects.toThrow(/abort/i)
    controller.resume()
    await driver.remove(copy)
    expect(await driver.existing()).toEqual([databaseId])
  })

  test('WAL that a backup needs is kept, and the last backup of a removed database takes everything with it', async () => {
    const { driver, bucket } = await setUp()
    const [databaseId, backupId] = [newId('db'), newId('bak')]
    const names = async () => {
      const found: string[] = []
      for await (const { name } of bucket.list(`kubernetes/${nameOf(databaseId)}/`)) found.push(name.split('/').at(-1)!)
      return found.sort()
    }
    await driver.provision(databaseId, await newDatabase())
    await driver.backup(
      { databaseId, backupId },
      { bytesMax: Number.POSITIVE_INFINITY, onProgress() {}, signal: never },
    )
    const old = `kubernetes/${nameOf(databaseId)}/wals/0000000100000000/000000010000000000000001.gz`
    await bucket.put(
      old,
      (async function* () {
        yield Buffer.from('old')
      })(),
    )
    await driver.remove(databaseId)
    await driver.removeWal(databaseId, null)
    expect(await names()).toEqual(['000000010000000000000002.gz', 'backup.info', 'data.tar.gz'])
    await driver.removeBackup({ databaseId, backupId })
    expect(await names()).toEqual([])
  })

  test('a backup that CloudNativePG cannot take fails with the reason, and can be tried again', async () => {
    const { driver, controller } = await setUp()
    const of = { databaseId: newId('db'), backupId: newId('bak') }
    await driver.provision(of.databaseId, await newDatabase())
    controller.failBackups(true)
    const failing = driver.backup(of, { bytesMax: Number.POSITIVE_INFINITY, onProgress() {}, signal: never })
    await expect(failing).rejects.toMatchObject({
      message: 'CloudNativePG could not take the backup.',
      cause: new Error('the simulated store is full'),
    })
    controller.failBackups(false)
    expect(
      (await driver.backup(of, { bytesMax: Number.POSITIVE_INFINITY, onProgress() {}, signal: never })).bytes,
    ).toBeGreaterThan(0)
  })
})
