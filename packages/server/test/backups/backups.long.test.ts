import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type BackupArchives, createBackupArchives } from '../../src/archives/backup-archives.ts'
import { createDirectoryStore } from '../../src/archives/directory-store.ts'
import { createEncryption } from '../../src/archives/encryption.ts'
import { removeLeftoverFiles, runBackupSchedule } from '../../src/backups/upkeep.ts'
import type { DatabaseDriver } from '../../src/databases/drivers/driver.ts'
import { nodeOf } from '../../src/databases/drivers/local/home.ts'
import { createKeyedQueue } from '../../src/lib/keyed-queue.ts'
import { type BackupBody, clientOf, type DatabaseBody } from '../databases/support/customer.ts'
import { createPausedBackups } from '../databases/support/paused-backups.ts'
import {
  archivePath,
  archivesIn,
  namesIn,
  type Platform,
  postmastersIn,
  startPlatform,
} from '../databases/support/platform.ts'
import { captureLog } from '../kit/captured-log.ts'
import { until } from '../kit/until.ts'

const backups = createPausedBackups()
let platform: Platform
let source: DatabaseBody & { password: string }
beforeAll(async () => {
  platform = await startPlatform({}, backups.around)
  source = await platform.createDatabase('source')
})
afterAll(() => platform.close())

test('a restored copy has every row that was committed when the backup was requested, and only the new password', async () => {
  const sql = clientOf(source)
  await sql`create table promised (n int)`
  await sql`insert into promised select generate_series(1, 500)`
  const backup = await platform.takeBackup(source.id)
  await sql`insert into promised values (501)`
  const { database } = await platform.restoreBackup(backup.id, 'promise')
  expect(database.password).not.toBe(source.password)
  expect(await clientOf(database)`select count(*)::int as n from promised`).toEqual([{ n: 500 }])
  await expect(clientOf({ ...database, password: source.password })`select 1`).rejects.toThrow(
    'password authentication',
  )
  expect(await sql`select count(*)::int as n from promised`).toEqual([{ n: 501 }])
  await platform.removeDatabase(database.id)
})

const codeOf = (body: unknown) => (body as { code: string }).code

test('a second backup of a database is rejected while the first one runs', async () => {
  const answers = await Promise.all(
    Array.from({ length: 4 }, () =>
      platform.request<BackupBody>(`/databases/${source.id}/backups`, { method: 'POST' }),
    ),
  )
  expect(answers.map((answer) => answer.status).sort()).toEqual([202, 409, 409, 409])
  const refused = answers.filter((answer) => answer.status === 409)
  expect(refused.map(({ body }) => codeOf(body))).toEqual(Array(3).fill('backup.already_running'))
  const started = answers.find((answer) => answer.status === 202)!.body
  const removed = await platform.request(`/backups/${started.id}`, { method: 'DELETE' })
  expect([removed.status, codeOf(removed.body)]).toEqual([409, 'backup.still_running'])
  expect(await platform.settledBackup(started.id)).toMatchObject({ status: 'completed' })
})

test('a running backup can be cancelled: it fails with that reason, leaves no archive, and another one can start', async () => {
  backups.pause()
  onTestFinished(() => backups.resume())
  const { body: started } = await platform.request<BackupBody>(`/databases/${source.id}/backups`, { method: 'POST' })
  await until(
    async () => backups.paused.has(source.id),
    (paused) => paused,
  )
  const cancel = () => platform.request<BackupBody>(`/backups/${started.id}/cancel`, { method: 'POST' })
  const another = await platform.another()
  expect((await another.request(`/backups/${started.id}/cancel`, { method: 'POST' })).status).toBe(404)
  const { status, body } = await cancel()
  const failure = 'The backup was cancelled.'
  expect([status, body.status, body.failure]).toEqual([200, 'failed', failure])
  await until(
    async () => backups.paused.has(source.id),
    (paused) => !paused,
  )
  const again = await cancel()
  expect([again.status, codeOf(again.body)]).toEqual([409, 'backup.not_running'])
  const restored = await platform.request(`/backups/${started.id}/restore`, { body: { name: 'copy' } })
  expect([restored.status, codeOf(restored.body)]).toEqual([409, 'backup.not_completed'])
  const data = { backup_id: started.id, database_id: source.id, reason: failure }
  expect(await platform.eventsAbout('backup_id', started.id)).toEqual([{ type: 'backup.failed', data }])
  backups.resume()
  const next = await platform.takeBackup(source.id)
  expect(next.status).toBe('completed')
  expect(await archivesIn(platform.archives)).not.toContain(started.id)
  expect((await platform.get<BackupBody>(`/backups/${started.id}`)).status).toBe('failed')
})

test('a restore from a damaged archive fails, and leaves no files of the new database', async () => {
  const backup = await platform.takeBackup(source.id)
  const path = await archivePath(platform.archives, backup.id)
  const archive = await readFile(path)
  archive[archive.length >> 1]! ^= 0xff
  await writeFile(path, archive)
  const { restore, database } = await platform.restoreBackup(backup.id, 'broken')
  expect(restore).toMatchObject({ status: 'failed', failure: expect.stringContaining('The archive is damaged') })
  expect(database).toMatchObject({ status: 'failed', failure: restore.failure })
  const events = await platform.eventsAbout('database_id', database.id)
  expect(events).toEqual([
    { type: 'database.failed', data: { database_id: database.id, name: 'broken', reason: restore.failure } },
  ])
  expect(await namesIn(platform.home)).not.toContain(database.id)
  expect(await clientOf(source)`select 1 as up`).toEqual([{ up: 1 }])
})

test('a restore from a swapped archive, or from one with appended bytes, fails', async () => {
  const [backup, other] = [await platform.takeBackup(source.id), await platform.takeBackup(source.id)]
  const path = await archivePath(platform.archives, backup.id)
  const archive = await readFile(path)
  for (const instead of [
    await readFile(await archivePath(platform.archives, other.id)),
    Buffer.concat([archive, Buffer.alloc(64)]),
  ]) {
    await writeFile(path, instead)
    const { restore } = await platform.restoreBackup(backup.id, 'swapped')
    expect(restore).toMatchObject({ status: 'failed', failure: expect.stringContaining('The archive is damaged') })
  }
})

test('a backup of a database whose server does not run ends in backup.failed, and other databases go on', async () => {
  const broken = await platform.createDatabase('broken server')
  const postmaster = (await postmastersIn(platform.home)).find(({ cluster }) => cluster.includes(broken.id))
  process.kill(postmaster!.pid, 'SIGKILL')
  // Without this file it cannot start again.
  await rm(join(platform.home, broken.id, 'cluster', 'global', 'pg_control'))
  const asked = await platform.askForBackup(broken.id)
  expect(await platform.settledBackup(asked.id)).toMatchObject({ status: 'failed' })
  expect(await clientOf(source)`select 1 as up`).toEqual([{ up: 1 }])
  await platform.removeDatabase(broken.id)
})

test('a backup that cannot be written ends in backup.failed with the reason, and leaves no archive', async () => {
  const renamed = `${platform.archives}.renamed`
  await rename(platform.archives, renamed)
  await writeFile(platform.archives, 'not a directory')
  const body = await platform.askForBackup(source.id)
  const failed = await platform.settledBackup(body.id)
  await rm(platform.archives)
  await rename(renamed, platform.archives)
  expect(failed).toMatchObject({ status: 'failed', failure: 'Something went wrong on our side.', size_bytes: null })
  expect(await platform.eventsAbout('backup_id', body.id)).toEqual([
    { type: 'backup.failed', data: { backup_id: body.id, database_id: source.id, reason: failed.failure } },
  ])
  expect((await archivesIn(platform.archives)).filter((name) => name.startsWith(body.id))).toEqual([])
  // The next one works.
  expect(await platform.takeBackup(source.id)).toMatchObject({ status: 'completed' })
}, 60_000)

const archivesAt = (path: string) =>
  createBackupArchives({
    store: createDirectoryStore(path),
    encryption: createEncryption(platform.masterKeys),
    encrypts: true,
  })

test('archives that cannot be read or removed when a node starts are reported, and the node starts', async () => {
  const { node } = await nodeOf(join(platform.folder, 'data'))
  const { log, lines } = captureLog()
  const common = { db: platform.db, node, databaseWork: createKeyedQueue(), log }
  const driverWith = ({ existing, remove }: BackupArchives) =>
    ({ existing: async () => [], existingBackups: existing, removeBackup: remove }) as unknown as DatabaseDriver
  await removeLeftoverFiles({ ...common, driver: driverWith(archivesAt(import.meta.filename)) })
  expect(lines().map((line) => line.msg)).toEqual(['archives.cannot_be_read'])
  const backup = await platform.takeBackup(source.id)
  await platform.db`update keyhook.backups set status = 'failed', failure = 'x' where id = ${backup.id}`
  const remove = async () => {
    throw new Error('the disk failed')
  }
  await removeLeftoverFiles({ ...common, driver: driverWith({ ...archivesAt(platform.archives), remove }) })
  expect(lines().at(-1)).toMatchObject({ msg: 'archive.not_removed', backupId: backup.id })
})

test('deleting a backup removes its archive, and its path answers 404 afterwards', async () => {
  const backup = await platform.takeBackup(source.id)
  expect(await archivesIn(platform.archives)).toContain(backup.id)
  expect((await platform.request(`/backups/${backup.id}`, { method: 'DELETE' })).status).toBe(202)
  await platform.gone(`/backups/${backup.id}`)
  expect(await archivesIn(platform.archives)).not.toContain(backup.id)
  expect((await platform.request(`/backups/${backup.id}/restore`, { body: { name: 'x' } })).status).toBe(404)
})

test('deleting a database fails its running backup, and keeps its completed backups', async () => {
  const database = await platform.createDatabase('deleted')
  const kept = await platform.takeBackup(database.id)
  backups.pause()
  onTestFinished(backups.resume)
  const body = await platform.askForBackup(database.id)
  await until(
    async () => backups.paused,
    (paused) => paused.has(database.id),
  )
  await platform.removeDatabase(database.id)
  const failure = 'The database was deleted.'
  expect(await platform.settledBackup(body.id)).toMatchObject({ status: 'failed', failure })
  expect((await platform.eventsAbout('backup_id', body.id)).map((event) => event.type)).toEqual(['backup.failed'])
  expect((await archivesIn(platform.archives)).filter((name) => name.startsWith(body.id))).toEqual([])
  const { restore, database: copy } = await platform.restoreBackup(kept.id, 'copy of a deleted database')
  expect(restore.status).toBe('completed')
  await platform.removeDatabase(copy.id)
  expect((await postmastersIn(platform.home)).filter((one) => one.cluster.includes(database.id))).toEqual([])
})

test('deleting the new database during a restore fails the restore, and leaves no files', async () => {
  const backup = await platform.takeBackup(source.id)
  const { body } = await platform.request<{ restore: { id: string }; database: DatabaseBody }>(
    `/backups/${backup.id}/restore`,
    { body: { name: 'unwanted' } },
  )
  const removed = await platform.request(`/backups/${backup.id}`, { method: 'DELETE' })
  expect([removed.status, codeOf(removed.body)]).toEqual([409, 'backup.being_restored'])
  await platform.request(`/databases/${body.database.id}`, { method: 'DELETE' })
  await platform.gone(`/databases/${body.database.id}`)
  const restore = await platform.request<{ status: string; failure: string | null }>(`/restores/${body.restore.id}`)
  expect(restore.body).toMatchObject({ status: 'failed', failure: 'The database was deleted.' })
  expect(await namesIn(platform.home)).not.toContain(body.database.id)
  const events = await platform.eventsAbout('database_id', body.database.id)
  expect(events.map((event) => event.type)).toEqual(['database.failed'])
})

test('with a schedule, every database is backed up when it is due, and only the newest backups are kept', async () => {
  const { node } = await nodeOf(join(platform.folder, 'data'))
  const pass = () => runBackupSchedule({ db: platform.db, queue: platform.queue, node }, { everyHours: 24, keep: 1 })
  const database = await platform.createDatabase('nightly')
  const list = async () =>
    (await platform.request<(BackupBody & { origin: string })[]>(`/backups?database_id=${database.id}`)).body
  for (let night = 1; night <= 3; night++) {
    await pass()
    // A second pass on the same day starts no second backup.
    await pass()
    await until(list, (all) => all.every((one) => one.status === 'completed' || one.status === 'deleting'))
    await platform.db`update keyhook.backups set created_at = created_at - interval '25 hours' where database_id = ${database.id}`
  }
  await platform.db`update keyhook.backups set created_at = now() where database_id = ${database.id}`
  await pass()
  const left = await until(list, (all) => all.length === 1)
  expect(left.every((one) => one.origin === 'scheduled' && one.status === 'completed')).toBe(true)
  const onDisk = await archivesIn(platform.archives)
  for (const one of left) expect(onDisk).toContain(one.id)
}, 60_000)
