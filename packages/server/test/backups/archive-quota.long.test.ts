import { afterAll, beforeAll, expect, test } from 'vitest'
import { archivedBytes } from '../../src/databases/wal-sql.ts'
import { type BackupBody, clientOf, type DatabaseBody } from '../databases/support/customer.ts'
import { type Platform, startPlatform } from '../databases/support/platform.ts'
import { holdPublishers } from '../kit/hold-publishers.ts'
import { until } from '../kit/until.ts'

/*
 * Backups, bases and WAL of an organization count together.
 */

const quotaBytes = 64 * 1024 ** 2

let platform: Platform
beforeAll(async () => {
  platform = await startPlatform({
    KEYHOOK_ARCHIVES_PER_ORG_MAX: '64MB',
    KEYHOOK_POINT_IN_TIME_RESTORE: 'on',
    KEYHOOK_WAL_EVERY_SECONDS: '1',
  })
})
afterAll(() => platform.close())

const storedUntil = async (id: string): Promise<string | null> => {
  const [row] = await platform.db<{ until: string }[]>`
    select until_lsn::text as until from keyhook.wal_archives where database_id = ${id}`
  return row?.until ?? null
}

/** As if this backup were so large that everything takes `bytes`. */
async function fillUpTo(bytes: number, backupId: string, orgId = platform.orgId): Promise<void> {
  const more = bytes - (await archivedBytes(platform.db, orgId))
  await platform.db`update keyhook.backups set size_bytes = size_bytes + ${more}::bigint where id = ${backupId}`
}

test('at the quota backups are refused and WAL is not stored, until there is room', { timeout: 180_000 }, async () => {
  const database = await platform.createDatabase('orders')
  const path = `/databases/${database.id}/backups`
  const begin = () => platform.request<BackupBody & { code: string; detail: string }>(path, { method: 'POST' })
  // The first base is stored, so that nothing is but WAL from here on.
  await until(
    async () =>
      (await platform.db`select 1 from keyhook.backups where origin = 'base' and status = 'completed'`).length,
    (count) => count === 1,
  )
  const problem = async () =>
    (await platform.get<DatabaseBody & { recovery_problem: string | null }>(`/databases/${database.id}`))
      .recovery_problem
  expect(await problem()).toBeNull()
  const kept = await platform.settledBackup((await begin()).body.id)
  expect(kept.status).toBe('completed')
  const bytes = await archivedBytes(platform.db, platform.orgId)
  expect(bytes).toBeGreaterThan(kept.size_bytes!)

  // It fits when it begins, and not when it ends.
  await fillUpTo(quotaBytes - 1, kept.id)
  const late = await begin()
  expect(late.status).toBe(202)
  expect(await platform.settledBackup(late.body.id)).toMatchObject({
    status: 'failed',
    failure: expect.stringMatching(/with this one would take \d+ MiB, and may take 64 MiB/),
  })

  await fillUpTo(quotaBytes, kept.id)
  const refused = await begin()
  expect([refused.status, refused.body.code]).toEqual([422, 'limit.reached'])
  expect(refused.body.detail).toMatch(/take 64 MiB, and may take 64 MiB. Delete backups/)
  expect(await problem()).toBe(refused.body.detail)
  const before = await storedUntil(database.id)
  await clientOf(database).unsafe('create table written (n int)')
  // Two rounds, by what is stored of another organization.
  const other = await (await platform.another()).createDatabase('other')
  for (const table of ['one', 'two']) {
    const known = await storedUntil(other.id)
    await clientOf(other).unsafe(`create table ${table} (n int)`)
    await until(
      () => storedUntil(other.id),
      (now) => now !== known,
    )
  }
  expect(await storedUntil(database.id)).toBe(before)

  await platform.request(`/backups/${kept.id}`, { method: 'DELETE' })
  await until(
    () => storedUntil(database.id),
    (now) => now !== before,
  )
  expect(await problem()).toBeNull()
  expect((await begin()).status).toBe(202)
})

test('of two backups that end at the same time, the second counts the first', { timeout: 180_000 }, async () => {
  const { orgId, ...own } = await platform.another()
  const databases = [await own.createDatabase('one'), await own.createDatabase('two')]
  const bases = await until(
    () => platform.db<{ id: string; size_bytes: number }[]>`
      select id, size_bytes::float8 as size_bytes from keyhook.backups
      where org_id = ${orgId} and origin = 'base' and status = 'completed'`,
    ({ length }) => length === 2,
  )
  await fillUpTo(quotaBytes - Math.round(1.5 * bases[0]!.size_bytes), bases[0]!.id, orgId)
  // Both are stored, and cannot publish that they are completed.
  const release = await holdPublishers(platform.db, orgId)
  const begun = await Promise.all(
    databases.map(({ id }) => own.request<BackupBody>(`/databases/${id}/backups`, { method: 'POST' })),
  )
  const waiting = () => platform.db`select from pg_stat_activity where wait_event_type = 'Lock'`
  await until(waiting, ({ length }) => length === 2).finally(release)
  const settled = await Promise.all(begun.map(({ body }) => own.settledBackup(body.id)))
  expect(settled.map(({ status }) => status).sort()).toEqual(['completed', 'failed'])
})
