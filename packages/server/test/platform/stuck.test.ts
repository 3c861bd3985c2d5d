import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, expect, onTestFinished, test } from 'vitest'
import { scramVerifier } from '../../src/domain/scram.ts'
import { type DatabaseId, newId } from '../../src/kernel/ids.ts'
import type { DatabaseDriver } from '../../src/platform/driver.ts'
import { nodeOf } from '../../src/platform/local/home.ts'
import type { LocalDriverOptions } from '../../src/platform/local/local-driver.ts'
import { clientOf, until } from './support/customer.ts'
import { createKillable, nothingAmiss } from './support/killable.ts'
import { openDriver } from './support/local-driver.ts'
import { scratchFolder, startPlatform } from './support/platform.ts'
import { inTime } from './support/program.ts'
import { getStuck } from './support/stuck.ts'

/*
 * A customer's session that cannot be cancelled holds up its own database, and nobody and nothing else.
 */
const folder = scratchFolder()
afterAll(async () => rm(await folder, { recursive: true, force: true }))

/** A database with such a session, at a driver of its own. */
async function stuckDatabase(more: Partial<LocalDriverOptions> = {}) {
  const { dataDir } = await nodeOf(join(await folder, 'data'))
  const driver = openDriver(dataDir, more)
  const id = newId('db')
  onTestFinished(() => driver.remove(id).finally(driver.close))
  const passwordVerifier = await scramVerifier('secret')
  const { host, port } = await driver.provision(id, { passwordVerifier, signal: new AbortController().signal })
  await getStuck(clientOf({ connection_string: `postgres://app@${host}:${port}/app`, password: 'secret' }, 2))
  return { driver, id }
}

test('a database whose session cannot be cancelled is removed at once', async () => {
  const { driver, id } = await stuckDatabase()
  await inTime(driver.remove(id), 'removed', 20_000)
  expect(await driver.existing()).toEqual([])
}, 120_000)

async function readBackup(driver: DatabaseDriver, id: DatabaseId, signal: AbortSignal): Promise<void> {
  for await (const _part of driver.backup(id, { onProgress() {}, signal }));
}

test('a backup that waits for such a session fails in the end, and says so', async () => {
  const { driver, id } = await stuckDatabase({ backupStatementMsMax: 2_000 })
  const backup = readBackup(driver, id, new AbortController().signal)
  const lasting = { name: 'StepFailure', message: expect.stringContaining('checkpoint'), lasting: true }
  await expect(inTime(backup, 'failed', 20_000)).rejects.toMatchObject(lasting)
}, 60_000)

test('a backup that waits for such a session is given up as soon as nobody wants it', async () => {
  const { driver, id } = await stuckDatabase()
  const unwanted = new AbortController()
  const backup = readBackup(driver, id, unwanted.signal)
  setTimeout(() => unwanted.abort(new Error('not wanted')), 1_000)
  await expect(inTime(backup, 'given up', 20_000)).rejects.toThrow('not wanted')
}, 60_000)

test('whoever has a backup wait in many such databases keeps nobody else from theirs, and can delete them all', async () => {
  const platform = await startPlatform()
  onTestFinished(platform.close)
  const other = await platform.another()
  const doomed = await Promise.all(Array.from({ length: 4 }, (_, n) => platform.createDatabase(`stuck-${n}`)))
  for (const database of doomed) await getStuck(clientOf(database, 2))
  const backups = await Promise.all(doomed.map(({ id }) => platform.askForBackup(id)))
  const { db } = platform
  await until(
    () => db`select 1 from keyhook_jobs.job where data ->> 'kind' = 'backup.take' and state = 'active'`,
    (active) => active.length === 3,
  )
  const { id } = await other.createDatabase('next')
  expect(await other.takeBackup(id)).toMatchObject({ status: 'completed' })
  await inTime(Promise.all(doomed.map(({ id }) => platform.removeDatabase(id))), 'removed', 30_000)
  for (const { id } of backups) {
    expect(await platform.settledBackup(id)).toMatchObject({ status: 'failed', failure: 'The database was deleted.' })
  }
}, 180_000)

test('after kill -9 of Keyhook, databases with such a session come back, or are removed at once', async () => {
  const keyhook = await createKillable()
  onTestFinished(keyhook.remove)
  await keyhook.start()
  const kept = await keyhook.createDatabase('kept')
  const doomed = await keyhook.createDatabase('doomed')
  for (const database of [kept, doomed]) await getStuck(clientOf(database, 2))
  await keyhook.killedAt('provision.making', () => keyhook.askForDatabase('next'))
  await keyhook.start()
  await inTime(keyhook.removeDatabase(doomed.id), 'removed', 30_000)
  const found = await inTime(keyhook.settled(), 'all back', 30_000)
  expect(found).toMatchObject(nothingAmiss(found))
  expect(found.available).toContain(kept.id)
  expect(found.available).toHaveLength(2)
  // It replays its log first.
  const client = clientOf(kept)
  const answers = () =>
    client`select 1`.then(
      () => true,
      () => false,
    )
  await until(answers, (answered) => answered)
}, 120_000)
