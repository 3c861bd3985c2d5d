import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { scramVerifier } from '../../src/databases/database.ts'
import type { LocalInstances } from '../../src/databases/drivers/driver.ts'
import { nodeOf } from '../../src/databases/drivers/local/home.ts'
import type { LocalInstancesOptions } from '../../src/databases/drivers/local/instance.ts'
import { type DatabaseId, newId } from '../../src/lib/ids.ts'
import { until } from '../kit/until.ts'
import { clientOf } from './support/customer.ts'
import { consistent, createKillable } from './support/killable.ts'
import { openInstances } from './support/local-instances.ts'
import { scratchFolder, startPlatform } from './support/platform.ts'
import { inTime } from './support/program.ts'
import { blockDatabase } from './support/uncancellable-session.ts'

/*
 * A customer's session that cannot be cancelled blocks its own database, and no other.
 */
const folder = scratchFolder()
afterAll(async () => rm(await folder, { recursive: true, force: true }))

/** A database with such a session, and its own instances. */
async function blockedDatabase(more: Partial<LocalInstancesOptions> = {}) {
  const { dataDir } = await nodeOf(join(await folder, 'data'))
  const instances = openInstances(dataDir, more)
  const id = newId('db')
  onTestFinished(() => instances.remove(id).finally(instances.close))
  const passwordVerifier = await scramVerifier('secret')
  const { host, port } = await instances.provision(id, { passwordVerifier, signal: new AbortController().signal })
  await blockDatabase(clientOf({ connection_string: `postgres://app@${host}:${port}/app`, password: 'secret' }, 2))
  return { instances, id }
}

test('a database whose session cannot be cancelled is removed at once', async () => {
  const { instances, id } = await blockedDatabase()
  await inTime(instances.remove(id), 'removed', 20_000)
  expect(await instances.existing()).toEqual([])
}, 120_000)

async function readBackup(instances: LocalInstances, id: DatabaseId, signal: AbortSignal): Promise<void> {
  for await (const _part of instances.backup(id, { bytesMax: Number.POSITIVE_INFINITY, onProgress() {}, signal }));
}

test('a backup that waits for such a session fails with a reason', async () => {
  const { instances, id } = await blockedDatabase({ backupStatementMsMax: 2_000 })
  const backup = readBackup(instances, id, new AbortController().signal)
  const failure = { name: 'StepFailure', message: expect.stringContaining('checkpoint'), permanent: true }
  await expect(inTime(backup, 'failed', 20_000)).rejects.toMatchObject(failure)
}, 60_000)

test('a backup that waits for such a session can be aborted', async () => {
  const { instances, id } = await blockedDatabase()
  const controller = new AbortController()
  const backup = readBackup(instances, id, controller.signal)
  setTimeout(() => controller.abort(new Error('not wanted')), 500)
  await expect(inTime(backup, 'aborted', 20_000)).rejects.toThrow('not wanted')
}, 60_000)

test('an organization with many blocked backups does not delay others, and can delete its databases', async () => {
  const platform = await startPlatform()
  onTestFinished(platform.close)
  const other = await platform.another()
  const blocked = await Promise.all(Array.from({ length: 4 }, (_, n) => platform.createDatabase(`blocked-${n}`)))
  for (const database of blocked) await blockDatabase(clientOf(database, 2))
  const backups = await Promise.all(blocked.map(({ id }) => platform.askForBackup(id)))
  const { db } = platform
  await until(
    () => db`select 1 from keyhook_jobs.job where data ->> 'kind' = 'backup.take' and state = 'active'`,
    (active) => active.length === 3,
  )
  const { id } = await other.createDatabase('next')
  expect(await other.takeBackup(id)).toMatchObject({ status: 'completed' })
  await inTime(Promise.all(blocked.map(({ id }) => platform.removeDatabase(id))), 'removed', 30_000)
  for (const { id } of backups) {
    expect(await platform.settledBackup(id)).toMatchObject({ status: 'failed', failure: 'The database was deleted.' })
  }
}, 180_000)

test('after kill -9 of Keyhook, databases with such a session run again, or are removed at once', async () => {
  const keyhook = await createKillable()
  onTestFinished(keyhook.remove)
  await keyhook.start()
  const kept = await keyhook.createDatabase('kept')
  const removed = await keyhook.createDatabase('removed')
  for (const database of [kept, removed]) await blockDatabase(clientOf(database, 2))
  await keyhook.killedAt('provision.creating', () => keyhook.askForDatabase('next'))
  await keyhook.start()
  await inTime(keyhook.removeDatabase(removed.id), 'removed', 30_000)
  const found = await inTime(keyhook.settled(), 'all running', 30_000)
  expect(found).toMatchObject(consistent(found))
  expect(found.available).toContain(kept.id)
  expect(found.available).toHaveLength(2)
  // It replays its WAL first.
  const client = clientOf(kept)
  const answers = () =>
    client`select 1`.then(
      () => true,
      () => false,
    )
  expect(await until(answers, (answered) => answered)).toBe(true)
}, 120_000)
