import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Database } from '../../src/db/database.ts'
import { clientOf, type DatabaseBody, type RestoreBody } from '../databases/support/customer.ts'
import { createKillable, type Killable } from '../databases/support/killable.ts'
import { postmastersIn } from '../databases/support/platform.ts'
import { until } from '../kit/until.ts'

let keyhook: Killable
beforeAll(async () => {
  keyhook = await createKillable({ KEYHOOK_POINT_IN_TIME_RESTORE: 'on', KEYHOOK_WAL_EVERY_SECONDS: '1' })
  await keyhook.start()
})
afterAll(() => keyhook.remove())

type Windowed = DatabaseBody & { recovery_window: { from: string; to: string } | null }
const windowOf = async (id: string) => (await keyhook.get<Windowed>(`/databases/${id}`)).recovery_window

/** Until the commit is acknowledged, across restarts of the server. */
const insert = (sql: Database, n: number) =>
  until(
    () =>
      sql`insert into ledger values (${n}) on conflict do nothing`.then(
        () => true,
        () => false,
      ),
    (done) => done,
  )

async function insertRows(sql: Database, first: number, count: number): Promise<void> {
  for (let n = first; n < first + count; n++) await insert(sql, n)
}

test('Keyhook and the instance are killed in between: the archive has no gap, and the restored state is exact', {
  timeout: 300_000,
}, async () => {
  const source = await keyhook.createDatabase()
  const sql = clientOf(source)
  await sql`create table ledger (n int primary key)`
  const { from } = (await until(
    () => windowOf(source.id),
    (window) => window !== null,
  ))!
  // Killed when a segment is stored and nothing knows it, and when the slot has moved on and the row has not.
  for (const [round, step] of ['wal.stored', 'wal.recording'].entries()) {
    await keyhook.killedAt(step, () => insertRows(sql, round * 100, 50))
    // The instance goes on without Keyhook.
    await insertRows(sql, round * 100 + 50, 50)
    await keyhook.start()
    await insertRows(sql, round * 10 + 1_000, 10)
  }
  const servers = (await postmastersIn(keyhook.home)).filter(({ cluster }) => cluster.includes(source.id))
  expect(servers).toHaveLength(1)
  process.kill(servers[0]!.pid, 'SIGKILL')
  await insertRows(sql, 2_000, 50)
  const [{ to }] = await sql<[{ to: Date }]>`select date_trunc('milliseconds', clock_timestamp()) as to`
  await insertRows(sql, 3_000, 50)
  const expected = await sql`select n from ledger where pg_xact_commit_timestamp(xmin) <= ${to} order by n`
  expect(expected.length).toBeGreaterThanOrEqual(270)

  const window = await until(
    () => windowOf(source.id),
    (found) => found !== null && to <= new Date(found.to),
  )
  // A gap would have started it again.
  expect(window!.from).toBe(from)
  const { body } = await keyhook.request<{ restore: RestoreBody; database: DatabaseBody & { password: string } }>(
    `/databases/${source.id}/restore`,
    { body: { name: 'then', to: to.toISOString() } },
  )
  expect((await keyhook.settledRestore(body.restore.id)).status).toBe('completed')
  const restored = clientOf({ ...(await keyhook.settledDatabase(body.database.id)), password: body.database.password })
  expect([...(await restored`select n from ledger order by n`)]).toEqual([...expected])
})
