import { afterAll, beforeAll, expect, test } from 'vitest'
import { operator } from '../../src/access/audit.ts'
import { changeStorageLimit } from '../../src/databases/rules.ts'
import type { DatabaseId } from '../../src/lib/ids.ts'
import { customerSqlForTest } from '../kit/customer-sql.ts'
import { until } from '../kit/until.ts'
import { clientOf, type DatabaseBody } from './support/customer.ts'
import { type Platform, startPlatform } from './support/platform.ts'

const limitBytes = 256 * 1024 ** 2

let platform: Platform
beforeAll(async () => {
  platform = await startPlatform({ KEYHOOK_DATABASE_STORAGE_MAX: '256MB' })
})
afterAll(() => platform.close())

type Storage = { used_bytes: number; limit_bytes: number; state: string; message: string | null }
const storageOf = async (id: string): Promise<Storage | null> =>
  (await platform.get<DatabaseBody & { storage: Storage | null }>(`/databases/${id}`)).storage

const untilState = (id: string, state: string): Promise<Storage | null> =>
  until(
    () => storageOf(id),
    (storage) => storage?.state === state,
  )

/** Rows of 1 MB that are stored as they are, until something rejects them. */
async function fill(sql: ReturnType<typeof clientOf>, before = 'select 1'): Promise<Error> {
  try {
    await sql.unsafe(before)
    await sql.unsafe('create table if not exists filler (content text)')
    await sql.unsafe('alter table filler alter content set storage external')
    for (;;) await sql.unsafe(`insert into filler select repeat('x', 1000000) from generate_series(1, 5)`)
  } catch (error) {
    return error as Error
  }
}

test('a database near its limit is read-only and says why, until its owner has made room', {
  timeout: 180_000,
}, async () => {
  const database = await platform.createDatabase('near')
  const storage = await untilState(database.id, 'normal')
  expect(storage).toMatchObject({ limit_bytes: limitBytes, message: null })
  expect(storage!.used_bytes).toBeGreaterThan(0)

  // Its session ends in the middle of a transaction, or the next transaction is rejected.
  await fill(clientOf(database))
  expect(await untilState(database.id, 'read_only')).toMatchObject({ message: expect.stringContaining('256 MiB') })
  const sql = clientOf(database)
  await until(
    async () => (await sql<[{ read_only: string }]>`select current_setting('transaction_read_only') as read_only`)[0],
    ({ read_only }) => read_only === 'on',
  )
  await expect(sql`insert into filler values ('one more')`).rejects.toMatchObject({
    code: '25006',
    message: 'cannot execute INSERT in a read-only transaction',
  })
  const [reason] = await sql<[{ 'keyhook.storage': string }]>`show keyhook.storage`
  expect(reason['keyhook.storage']).toMatch(/read-only.*set default_transaction_read_only = off/)

  // Two statements: one text of both would be one transaction, which is read-only already.
  await sql.unsafe('set default_transaction_read_only = off')
  await sql.unsafe('truncate filler')
  await untilState(database.id, 'normal')
  const after = clientOf(database)
  await until(
    async () => (await after<[{ read_only: string }]>`select current_setting('transaction_read_only') as read_only`)[0],
    ({ read_only }) => read_only === 'off',
  )
  await after`insert into filler values ('again')`
})

test('a session that switches read-only off is stopped with its database at the hard limit', {
  timeout: 180_000,
}, async () => {
  const database = await platform.createDatabase('beyond')
  const neighbour = await platform.createDatabase('neighbour')
  const ended = await until(
    async () => {
      const error = await fill(clientOf(database), 'set default_transaction_read_only = off')
      return (await storageOf(database.id))?.state === 'stopped' ? error : null
    },
    (error) => error !== null,
  )
  expect(ended).toBeInstanceOf(Error)
  expect(await untilState(database.id, 'stopped')).toMatchObject({ message: expect.stringContaining('higher limit') })
  await expect(customerSqlForTest(database.connection_string!, database.password)`select 1`).rejects.toThrow()
  expect(await clientOf(neighbour)`select 1 as one`).toEqual([{ one: 1 }])

  await changeStorageLimit(
    platform.db,
    operator,
    { databaseStorageMax: limitBytes },
    { id: database.id as DatabaseId, limitBytes: limitBytes * 4 },
  )
  expect(await untilState(database.id, 'normal')).toMatchObject({ limit_bytes: limitBytes * 4 })
  const rows = await until(
    () => clientOf(database)<[{ rows: number }]>`select count(*)::int as rows from filler`.catch(() => null),
    (answer) => answer !== null,
  )
  expect(rows![0].rows).toBeGreaterThan(0)
})
