import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { nodeOf } from '../../src/platform/local/home.ts'
import { runBackupSchedule } from '../../src/platform/scheduled-backups.ts'
import { connect } from '../../src/store/database.ts'
import { superuser } from '../../src/store/embedded/cluster.ts'
import { ledgerSums, prepareLedger, startLoad, untilCommitted } from './support/load.ts'
import {
  type BackupBody,
  clientOf,
  createDatabase,
  type DatabaseBody,
  eventsOf,
  gone,
  namesIn,
  type Platform,
  postmastersIn,
  restoreBackup,
  settledBackup,
  startPlatform,
  takeBackup,
  until,
} from './support/platform.ts'

let platform: Platform
let source: DatabaseBody & { password: string }
beforeAll(async () => {
  platform = await startPlatform()
  source = await createDatabase(platform, 'source')
})
afterAll(() => platform.close())

const eventsAbout = async (key: string, id: string) =>
  (await eventsOf(platform.db, platform.orgId)).filter((event) => event.data[key] === id)

/** Checks every table and index page for page, as the superuser over the instance's socket. */
async function amcheck(database: DatabaseBody): Promise<number> {
  const host = join(platform.home, database.id, 'cluster')
  const target = { host, port: database.port!, user: superuser, password: '', database: 'app' }
  const sql = connect(target, { name: 'amcheck', connectionsMax: 1 })
  onTestFinished(() => sql.end({ timeout: 1 }))
  await sql`create extension if not exists amcheck`
  const indexes = await sql`
    select bt_index_parent_check(c.oid, true, true) from pg_class c join pg_am a on a.oid = c.relam
    where c.relkind = 'i' and a.amname = 'btree' and c.relpersistence = 'p'`
  const damage = await sql`
    select c.relname, v.* from pg_class c cross join lateral verify_heapam(c.oid) v
    where c.relkind in ('r', 't', 'm') and c.relpersistence = 'p'`
  expect(damage).toEqual([])
  return indexes.length
}

test('a backup taken under a load of writes restores to a consistent state with everything committed before it ended', async () => {
  const sql = clientOf(source, 6)
  await prepareLedger(sql)
  const load = startLoad(sql, 6)
  await untilCommitted(load, 50)
  const backup = await takeBackup(platform, source.id)
  const duringBackup = load.committed()
  await untilCommitted(load, duringBackup + 50)
  expect(backup).toMatchObject({ status: 'completed', failure: null })
  expect(backup.bytes_done).toBe(backup.bytes_total)
  expect(backup.size_bytes).toBeGreaterThan(0)
  const [finished] = await platform.db<[{ at: Date }]>`
    select created_at as at from keyhook.backups where id = ${backup.id}`
  const [before] = await sql<[{ rows: number }]>`select count(*)::int as rows from history where at <= ${finished.at}`

  const { restore, database } = await restoreBackup(platform, backup.id)
  await load.stop()
  expect(restore).toMatchObject({ status: 'completed', failure: null })
  expect(restore.bytes_done).toBe(restore.bytes_total)
  const copy = clientOf(database)
  const sums = await ledgerSums(copy)
  expect(sums.tellers).toBe(sums.accounts)
  expect(sums.branches).toBe(sums.accounts)
  expect(sums.history).toBe(sums.accounts)
  expect(sums.rows).toBeGreaterThanOrEqual(before.rows)
  expect(await amcheck(database)).toBeGreaterThan(100)
  // A copy with a life of its own, that takes writes.
  await copy`insert into history (delta) values (0)`
  const original = await ledgerSums(sql)
  expect(original.rows).toBe(load.committed())
  expect(original.history).toBe(original.accounts)

  expect(await eventsAbout('backup_id', backup.id)).toEqual([
    { type: 'backup.completed', data: { backup_id: backup.id, database_id: source.id, size_bytes: backup.size_bytes } },
    { type: 'restore.completed', data: { restore_id: restore.id, backup_id: backup.id, database_id: database.id } },
  ])
  // restore.completed stands for it; a receiver that counts databases by both names would count it twice.
  expect((await eventsAbout('database_id', database.id)).map((event) => event.type)).toEqual(['restore.completed'])
}, 60_000)

test('every row that was committed when the backup was asked for is in the copy, whose only password is the new one', async () => {
  const sql = clientOf(source)
  await sql`create table promised (n int)`
  await sql`insert into promised select generate_series(1, 500)`
  const backup = await takeBackup(platform, source.id)
  await sql`insert into promised values (501)`
  const { database } = await restoreBackup(platform, backup.id, 'promise')
  expect(database.password).not.toBe(source.password)
  expect(await clientOf(database)`select count(*)::int as n from promised`).toEqual([{ n: 500 }])
  await expect(clientOf({ ...database, password: source.password })`select 1`).rejects.toThrow(
    'password authentication',
  )
  expect(await sql`select count(*)::int as n from promised`).toEqual([{ n: 501 }])
  await platform.request(`/databases/${database.id}`, { method: 'DELETE' })
  await gone(platform, `/databases/${database.id}`)
})

test('a second backup of one database is refused while the first is being taken', async () => {
  const answers = await Promise.all(
    Array.from({ length: 4 }, () =>
      platform.request<BackupBody>(`/databases/${source.id}/backups`, { method: 'POST' }),
    ),
  )
  expect(answers.map((answer) => answer.status).sort()).toEqual([202, 409, 409, 409])
  const begun = answers.find((answer) => answer.status === 202)!.body
  expect((await platform.request(`/backups/${begun.id}`, { method: 'DELETE' })).status).toBe(409)
  expect(await settledBackup(platform, begun.id)).toMatchObject({ status: 'completed' })
})

test('an archive that was damaged on disk does not restore: the new database fails, and nothing is left of it', async () => {
  const backup = await takeBackup(platform, source.id)
  const path = join(platform.archives, `${backup.id}.tar.zst`)
  const archive = await readFile(path)
  archive[archive.length >> 1]! ^= 0xff
  await writeFile(path, archive)
  const { restore, database } = await restoreBackup(platform, backup.id, 'broken')
  expect(restore).toMatchObject({ status: 'failed', failure: expect.stringContaining('The archive is damaged') })
  expect(database).toMatchObject({ status: 'failed', failure: restore.failure })
  const events = await eventsAbout('database_id', database.id)
  expect(events).toEqual([
    { type: 'database.failed', data: { database_id: database.id, name: 'broken', reason: restore.failure } },
  ])
  expect(await namesIn(platform.home)).not.toContain(database.id)
  expect(await clientOf(source)`select 1 as up`).toEqual([{ up: 1 }])
})

test('a backup that cannot be written ends in backup.failed with the reason, after a few attempts, and leaves no archive', async () => {
  const aside = `${platform.archives}.aside`
  await rename(platform.archives, aside)
  await writeFile(platform.archives, 'in the way')
  const { body } = await platform.request<BackupBody>(`/databases/${source.id}/backups`, { method: 'POST' })
  const failed = await settledBackup(platform, body.id)
  await rm(platform.archives)
  await rename(aside, platform.archives)
  expect(failed).toMatchObject({ status: 'failed', failure: 'Something went wrong on our side.', size_bytes: null })
  expect(await eventsAbout('backup_id', body.id)).toEqual([
    { type: 'backup.failed', data: { backup_id: body.id, database_id: source.id, reason: failed.failure } },
  ])
  expect((await readdir(platform.archives)).filter((name) => name.startsWith(body.id))).toEqual([])
  // And the next one is as good as ever.
  expect(await takeBackup(platform, source.id)).toMatchObject({ status: 'completed' })
}, 60_000)

test('deleting a backup removes its archive; its path answers 404 from then on', async () => {
  const backup = await takeBackup(platform, source.id)
  expect(await readdir(platform.archives)).toContain(`${backup.id}.tar.zst`)
  expect((await platform.request(`/backups/${backup.id}`, { method: 'DELETE' })).status).toBe(202)
  await gone(platform, `/backups/${backup.id}`)
  expect(await readdir(platform.archives)).not.toContain(`${backup.id}.tar.zst`)
  expect((await platform.request(`/backups/${backup.id}/restore`, { body: { name: 'x' } })).status).toBe(404)
})

test('deleting a database fails the backup that is being taken of it, and keeps the ones that it has', async () => {
  const database = await createDatabase(platform, 'doomed')
  const kept = await takeBackup(platform, database.id)
  const { body } = await platform.request<BackupBody>(`/databases/${database.id}/backups`, { method: 'POST' })
  await platform.request(`/databases/${database.id}`, { method: 'DELETE' })
  await gone(platform, `/databases/${database.id}`)
  const ended = await settledBackup(platform, body.id)
  if (ended.status === 'failed') {
    expect((await eventsAbout('backup_id', body.id)).map((event) => event.type)).toEqual(['backup.failed'])
    expect((await readdir(platform.archives)).filter((name) => name.startsWith(body.id))).toEqual([])
  }
  expect(['failed', 'completed']).toContain(ended.status)
  const { restore, database: copy } = await restoreBackup(platform, kept.id, 'risen')
  expect(restore.status).toBe('completed')
  await platform.request(`/databases/${copy.id}`, { method: 'DELETE' })
  await gone(platform, `/databases/${copy.id}`)
  expect((await postmastersIn(platform.home)).filter((one) => one.cluster.includes(database.id))).toEqual([])
})

test('deleting the new database during a restore ends the restore, and nothing is left', async () => {
  const backup = await takeBackup(platform, source.id)
  const { body } = await platform.request<{ restore: { id: string }; database: DatabaseBody }>(
    `/backups/${backup.id}/restore`,
    { body: { name: 'unwanted' } },
  )
  expect((await platform.request(`/backups/${backup.id}`, { method: 'DELETE' })).status).toBe(409)
  await platform.request(`/databases/${body.database.id}`, { method: 'DELETE' })
  await gone(platform, `/databases/${body.database.id}`)
  const restore = await platform.request<{ status: string; failure: string | null }>(`/restores/${body.restore.id}`)
  expect(restore.body).toMatchObject({ status: 'failed', failure: 'The database was deleted.' })
  expect(await namesIn(platform.home)).not.toContain(body.database.id)
  expect(await eventsAbout('database_id', body.database.id)).toEqual([])
})

test('with a schedule, every database is backed up when it is due, and only the newest are kept', async () => {
  const { node } = await nodeOf(join(platform.folder, 'data'))
  const pass = () => runBackupSchedule({ db: platform.db, queue: platform.queue, node }, { everyHours: 24, keep: 1 })
  const database = await createDatabase(platform, 'nightly')
  const list = async () =>
    (await platform.request<(BackupBody & { origin: string })[]>(`/backups?database_id=${database.id}`)).body
  for (let night = 1; night <= 3; night++) {
    await pass()
    // Twice on one day makes no second one.
    await pass()
    await until(list, (all) => all.every((one) => one.status === 'completed' || one.status === 'deleting'))
    await platform.db`update keyhook.backups set created_at = created_at - interval '25 hours' where database_id = ${database.id}`
  }
  await platform.db`update keyhook.backups set created_at = now() where database_id = ${database.id}`
  await pass()
  const left = await until(list, (all) => all.length === 1)
  expect(left.every((one) => one.origin === 'scheduled' && one.status === 'completed')).toBe(true)
  const onDisk = await readdir(platform.archives)
  for (const one of left) expect(onDisk).toContain(`${one.id}.tar.zst`)
}, 60_000)
