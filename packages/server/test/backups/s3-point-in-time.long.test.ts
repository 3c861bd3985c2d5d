import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createS3Store } from '../../src/archives/s3-store.ts'
import { clientOf, type DatabaseBody } from '../databases/support/customer.ts'
import { type Platform, startPlatform } from '../databases/support/platform.ts'
import { s3Settings } from '../databases/support/s3-settings.ts'
import { type S3Server, s3Missing, s3Program, startS3Server } from '../kit/s3-server.ts'
import { until } from '../kit/until.ts'

describe.skipIf(s3Program === null)(s3Program === null ? s3Missing : 'the WAL on a real S3 server', () => {
  let server: S3Server
  let platform: Platform
  beforeAll(async () => {
    server = await startS3Server()
    platform = await startPlatform({
      ...s3Settings(server),
      KEYHOOK_POINT_IN_TIME_RESTORE: 'on',
      KEYHOOK_WAL_EVERY_SECONDS: '1',
    })
  }, 120_000)
  afterAll(async () => {
    await platform?.close()
    await server?.close()
  }, 60_000)

  type Windowed = DatabaseBody & { recovery_window: { from: string; to: string } | null }

  test('a database is restored to a time from the bucket, and its WAL is deleted with it', async () => {
    const source = await platform.createDatabase('shop')
    const sql = clientOf(source)
    const keptAfter = (at: Date) =>
      until(
        () => platform.get<Windowed>(`/databases/${source.id}`),
        ({ recovery_window: window }) => window !== null && new Date(window.to) >= at,
      )
    await keptAfter(new Date(0))
    await sql`create table t as select 1 as n`
    const [{ to }] = await sql<[{ to: Date }]>`select clock_timestamp() as to`
    await sql`update t set n = 2`
    await keptAfter(to)
    const { body } = await platform.request<{ restore: { id: string }; database: DatabaseBody & { password: string } }>(
      `/databases/${source.id}/restore`,
      { body: { name: 'then', to: to.toISOString() } },
    )
    const restore = await platform.settledRestore(body.restore.id)
    expect([restore.status, restore.failure]).toEqual(['completed', null])
    const restored = await platform.settledDatabase(body.database.id)
    expect(await clientOf({ ...restored, password: body.database.password })`select n from t`).toEqual([{ n: 1 }])

    const stored = async () => {
      const store = createS3Store({ ...server.options, prefix: 'installation' })
      return (await Array.fromAsync(store.list(`wal/${source.id}/`))).map(({ name }) => name)
    }
    const names = await stored()
    expect(names.length).toBeGreaterThan(0)
    expect(names.every((name) => /\/[0-9A-F]{24}\.zst\.age$/.test(name))).toBe(true)
    await platform.removeDatabase(source.id)
    await until(stored, (left) => left.length === 0)
  }, 300_000)
})
