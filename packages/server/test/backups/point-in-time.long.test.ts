import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import type { LocalInstances } from '../../src/databases/drivers/driver.ts'
import type { Database } from '../../src/db/database.ts'
import { clientOf, type DatabaseBody, type RestoreBody } from '../databases/support/customer.ts'
import { type Platform, startPlatform } from '../databases/support/platform.ts'
import { until } from '../kit/until.ts'

let platform: Platform
/** Log is stored only while this is settled. */
let mayArchive = Promise.resolve()
let archiving = 0
const gated = (instances: LocalInstances): LocalInstances => ({
  ...instances,
  async archiveWal(id, options) {
    await mayArchive
    archiving += 1
    return instances.archiveWal(id, options).finally(() => (archiving -= 1))
  },
})

beforeAll(async () => {
  const settings = { KEYHOOK_POINT_IN_TIME_RESTORE: 'on', KEYHOOK_WAL_EVERY_SECONDS: '1' }
  platform = await startPlatform(settings, gated)
})
afterAll(() => platform.close())

type Windowed = DatabaseBody & { recovery_window: { from: string; to: string } | null }

const windowOf = async (id: string) => (await platform.get<Windowed>(`/databases/${id}`)).recovery_window

/** Waits until the database can be restored to this time. */
const untilKept = (id: string, to: Date) =>
  until(
    () => windowOf(id),
    (window) => window !== null && new Date(window.from) <= to && to <= new Date(window.to),
  )

const restoreTo = async (id: string, to: Date) => {
  const asked = { body: { name: 'then', to: to.toISOString() } }
  const { status, body } = await platform.request<{
    restore: RestoreBody & { to: string; backup_id: string }
    database: DatabaseBody & { password: string }
  }>(`/databases/${id}/restore`, asked)
  expect([status, body.restore?.to]).toEqual([202, to.toISOString()])
  const restore = await until(
    () => platform.get<RestoreBody>(`/restores/${body.restore.id}`),
    (one) => one.status !== 'running',
  )
  expect([restore.status, restore.failure]).toEqual(['completed', null])
  const database = await platform.settledDatabase(body.database.id)
  return { ...database, password: body.database.password, restoreId: restore.id, backupId: body.restore.backup_id }
}

/** Concurrent writers that wait for each other at one row, so that commits have the order of their numbers. */
async function startWriters(sql: Database, writers: number) {
  await sql`create table counter (n int not null)`
  await sql`insert into counter values (0)`
  await sql`create table ledger (n int primary key, filler text not null)`
  let running = true
  let committed = 0
  const work = async () => {
    while (running) {
      await sql.begin(async (tx) => {
        const [{ n }] = await tx<[{ n: number }]>`update counter set n = n + 1 returning n`
        await tx`insert into ledger values (${n}, repeat(md5(${n}::text), 20))`
      })
      committed += 1
    }
  }
  const working = Promise.all(Array.from({ length: writers }, work))
  return {
    untilMore: async (count: number) => {
      const wanted = committed + count
      await until(() => committed >= wanted)
    },
    async stop() {
      running = false
      await working
    },
  }
}

/** To the millisecond, as requests have it, and by the clock that commits have. */
const serverTime = async (sql: Database): Promise<Date> =>
  (await sql<[{ at: Date }]>`select date_trunc('milliseconds', clock_timestamp()) as at`)[0].at

const ledger = async (sql: Database): Promise<number[]> =>
  (await sql<{ n: number }[]>`select n from ledger order by n`).map(({ n }) => n)

test('under load, the restored database has exactly what was committed by that time', {
  timeout: 240_000,
}, async () => {
  const source = await platform.createDatabase('shop')
  const sql = clientOf(source, 5)
  const load = await startWriters(sql, 4)
  onTestFinished(() => load.stop())
  await until(
    () => windowOf(source.id),
    (window) => window !== null,
  )
  await load.untilMore(100)
  const to = await serverTime(sql)
  await load.untilMore(100)
  await load.stop()
  const committedBy = async (at: Date) =>
    (await sql<{ n: number }[]>`select n from ledger where pg_xact_commit_timestamp(xmin) <= ${at} order by n`).map(
      ({ n }) => n,
    )
  const expected = await committedBy(to)
  expect(expected.length).toBeLessThan((await ledger(sql)).length)

  await untilKept(source.id, to)
  const restored = await restoreTo(source.id, to)
  const then = clientOf(restored)
  expect(await ledger(then)).toEqual(expected)
  expect(await then`select n from counter`).toEqual([{ n: expected.length }])
  expect(await platform.eventsAbout('restore_id', restored.restoreId)).toEqual([
    {
      type: 'restore.completed',
      data: { restore_id: restored.restoreId, backup_id: restored.backupId, database_id: restored.id },
    },
  ])

  // Where the WAL starts is no backup of the customer's.
  expect(await platform.get(`/backups?database_id=${source.id}`)).toEqual([])
  expect(await platform.eventsAbout('database_id', source.id)).toEqual([
    { type: 'database.created', data: { database_id: source.id, name: 'shop' } },
  ])
  for (const asked of [
    await platform.request(`/backups/${restored.backupId}`),
    await platform.request(`/backups/${restored.backupId}`, { method: 'DELETE' }),
    await platform.request(`/backups/${restored.backupId}/restore`, { body: { name: 'again' } }),
  ])
    expect(asked.status).toBe(404)

  // Later than the last commit, when there is nothing to stop at: everything.
  const end = await serverTime(sql)
  await untilKept(source.id, end)
  expect(await ledger(clientOf(await restoreTo(source.id, end)))).toEqual(await ledger(sql))

  // The restored one is a database like others: it is archived under its own id, on a timeline of its own.
  await until(
    () => windowOf(restored.id),
    (window) => window !== null,
  )
  await then`insert into ledger values (1000000, '')`
  const later = await serverTime(then)
  await untilKept(restored.id, later)
  expect(await ledger(clientOf(await restoreTo(restored.id, later)))).toEqual([...expected, 1_000_000])
})

test('a time that is not kept is refused with the range that is', { timeout: 120_000 }, async () => {
  const source = await platform.createDatabase('shop')
  const ask = (to: string) =>
    platform.request<{ code: string; detail: string }>(`/databases/${source.id}/restore`, {
      body: { name: 'then', to },
    })
  const refused = async (to: string) => {
    const { status, body } = await ask(to)
    return [status, body.code, body.detail]
  }
  const window = (await until(
    () => windowOf(source.id),
    (found) => found !== null,
  ))!
  const range = `It can be restored to times from ${window.from} to `
  const before = new Date(new Date(window.from).getTime() - 2).toISOString()
  for (const [to, why] of [
    [before, '`to` is before the first time that is kept.'],
    ['2999-01-01T00:00:00Z', '`to` lies in the future.'],
  ] as const) {
    expect(await refused(to)).toEqual([409, 'restore.outside_window', expect.stringContaining(`${why} ${range}`)])
  }
  expect((await ask('yesterday')).status).toBe(422)
  const gate = Promise.withResolvers<void>()
  mayArchive = gate.promise
  await until(
    async () => archiving,
    (count) => count === 0,
  )
  const now = (await serverTime(clientOf(source))).toISOString()
  expect(await refused(now)).toEqual([
    409,
    'restore.outside_window',
    expect.stringContaining(`The write-ahead log of that time is not stored yet. ${range}`),
  ])
  gate.resolve()
  await untilKept(source.id, new Date(now))
  const another = await platform.another()
  const foreign = await another.request(`/databases/${source.id}/restore`, { body: { name: 'x', to: window.to } })
  expect(foreign.status).toBe(404)
  // Its WAL goes with the database.
  await platform.removeDatabase(source.id)
  expect((await ask(window.to)).status).toBe(404)
})

test('without point-in-time restore no WAL is stored, and the answer says why', { timeout: 120_000 }, async () => {
  const plain = await startPlatform()
  onTestFinished(() => plain.close())
  const source = await plain.createDatabase('shop')
  await plain.takeBackup(source.id)
  const to = new Date().toISOString()
  const { status, body } = await plain.request<{ detail: string }>(`/databases/${source.id}/restore`, {
    body: { name: 'then', to },
  })
  expect([status, body.detail]).toEqual([409, expect.stringContaining('cannot be restored to a time')])
  expect((await plain.get<Windowed>(`/databases/${source.id}`)).recovery_window).toBeNull()
})
