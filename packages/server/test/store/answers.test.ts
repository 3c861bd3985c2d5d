import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { connect, type Database, isUnavailable, learnTypesOnce } from '../../src/db/database.ts'
import { createInstallation } from '../support/installation.ts'

/*
 * Every answer is whole, and goes to whoever asked. Without the mends of the driver these fail, but for the one about another type
 * and the last, which hold what the mends must not break.
 */

async function oneConnection(): Promise<Database> {
  const installation = await createInstallation()
  onTestFinished(() => installation.close())
  const db = connect(installation.target, { name: 'test', connectionsMax: 1 })
  onTestFinished(() => db.end({ timeout: 5 }))
  await learnTypesOnce(db)
  return db
}

test('a statement that failed after some of its rows leaves none of them in the next answer', async () => {
  const db = await oneConnection()
  await expect(db`select 1 / (5 - n) from generate_series(1, 10) as n`).rejects.toThrow('division by zero')
  expect(await db`select 7 as n`).toEqual([{ n: 7 }])
})

test('a connection that was lost after some rows leaves none of them in the first answer of the next', async () => {
  const db = await oneConnection()
  const lost = db`
    select n, case when n = 5 then pg_terminate_backend(pg_backend_pid()) end from generate_series(1, 10) as n`
  await expect(lost).rejects.toSatisfy(isUnavailable)
  expect(await db`select 7 as n`).toEqual([{ n: 7 }])
})

test('a query whose prepared statement is gone is sent again with what it was given', async () => {
  const db = await oneConnection()
  const given = { yes: true, bytes: Buffer.from('hi'), json: { a: 1 }, list: ['a', 'b'], at: new Date(0) }
  const ask = () => db`
    select ${given.yes}::boolean as yes, ${given.bytes}::bytea as bytes, ${db.json(given.json)} as json,
      ${given.list}::text[] as list, ${given.at}::timestamptz as at`
  expect(await ask()).toEqual([given])
  await db.unsafe('deallocate all')
  expect(await ask()).toEqual([given])
})

test('a query that was prepared for a column of another type is sent again, and taken', async () => {
  const db = await oneConnection()
  await db.unsafe('create temporary table note (value int)')
  const note = (value: number) => db`insert into note values (${value}) returning *`
  expect(await note(1)).toEqual([{ value: 1 }])
  await db.unsafe('alter table note alter column value type text')
  expect(await note(2)).toEqual([{ value: '2' }])
  expect(await note(3)).toEqual([{ value: '3' }])
})

test('what is asked while it is sent again gets its own answer, and so does it', async () => {
  const db = await oneConnection()
  const ask = (n: number) => db`select ${n}::int as n`
  await ask(0)
  await db.unsafe('deallocate all')
  const again = ask(1).execute()
  // It waits behind this one to be sent again.
  const between = db.unsafe('select 2 as n, pg_sleep(0.5)').execute()
  await sleep(200)
  const after = db.unsafe('select 3 as n').execute()
  const answers = await Promise.all([again, between, after])
  expect(answers.map(([row]) => row!.n)).toEqual([1, 2, 3])
})

test('it is not sent again between the two halves of another that is sent for the first time', async () => {
  const db = await oneConnection()
  const ask = (n: number) => db`select ${n}::int as n`
  await ask(0)
  await db.unsafe('deallocate all')
  const again = ask(1).execute()
  const first = db`select ${2}::int as n, 'for the first time' as why`.execute()
  const after = db.unsafe('select 3 as n').execute()
  const answers = await Promise.all([again, first, after])
  expect(answers.map(([row]) => row!.n)).toEqual([1, 2, 3])
})

test('a value that cannot be written out is the fault of its own query, and of no other on its connection', async () => {
  const db = await oneConnection()
  const ask = (at: Date) => db`select ${at}::timestamptz as at`
  const at = new Date(0)
  await ask(at)
  const before = db`select 1 as n, pg_sleep(0.2)`.execute()
  const impossible = ask(new Date(Number.NaN))
  await expect(impossible).rejects.toThrow('Invalid time value')
  expect((await before)[0]!.n).toBe(1)
  expect(await db`select 2 as n`).toEqual([{ n: 2 }])
  expect(await ask(at)).toEqual([{ at }])
})

test('what PostgreSQL says of it the second time is what its asker is told', async () => {
  const db = await oneConnection()
  const divide = (by: number) => db`select 1 / ${by}::int as n`
  await divide(1)
  await db.unsafe('deallocate all')
  await expect(divide(0)).rejects.toThrow('division by zero')
})

test('a transaction that says it is committed is, though every prepared statement went before its end', async () => {
  const db = await oneConnection()
  await db.unsafe('create temporary table note (n int)')
  const note = (n: number, first: string) =>
    db.begin(async (tx) => {
      await tx.unsafe(`${first}; insert into note values (${n})`)
      if (n < 0) throw new Error('not this one')
    })
  await note(1, 'select 1')
  await note(2, 'deallocate all')
  await expect(note(-1, 'select 1')).rejects.toThrow('not this one')
  await expect(note(-2, 'deallocate all')).rejects.toThrow('not this one')
  expect(await db`select n from note order by n`).toEqual([{ n: 1 }, { n: 2 }])
})

test('a query of a transaction whose prepared statement is gone fails the transaction, and not the next', async () => {
  const db = await oneConnection()
  const ask = (n: number, first: string) =>
    db.begin(async (tx) => {
      await tx.unsafe(first)
      return tx`select ${n}::int as n`
    })
  await ask(1, 'select 1')
  await expect(ask(2, 'deallocate all')).rejects.toThrow('does not exist')
  expect(await ask(3, 'select 1')).toEqual([{ n: 3 }])
})
