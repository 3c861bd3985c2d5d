import { expect, onTestFinished, test } from 'vitest'
import { connect, type Database, isDataError, isUnavailable } from '../../src/db/database.ts'
import { createInstallation } from '../kit/installation.ts'

/* Every query gets its own answer, and the whole of it. */

async function oneConnection(): Promise<Database> {
  const installation = await createInstallation()
  onTestFinished(() => installation.close())
  const db = connect(installation.target, { name: 'test', connectionsMax: 1 })
  onTestFinished(() => db.end({ timeout: 5 }))
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

test('a statement is sent once, however often it is awaited', async () => {
  const db = await oneConnection()
  await db.unsafe('create table note (n int)')
  const insert = db`insert into note values (${1})`
  await Promise.all([insert, insert])
  await insert
  expect(await db`select n from note`).toEqual([{ n: 1 }])
})

test('a query whose prepared statement is gone is sent again with the same values', async () => {
  const db = await oneConnection()
  const given = { yes: true, bytes: Buffer.from('hi'), json: { a: 1 }, list: ['a', 'b'], at: new Date(0) }
  const ask = () => db`
    select ${given.yes}::boolean as yes, ${given.bytes}::bytea as bytes, ${JSON.stringify(given.json)}::json as json,
      ${given.list}::text[] as list, ${given.at}::timestamptz as at`
  expect(await ask()).toEqual([given])
  await db.unsafe('deallocate all')
  expect(await ask()).toEqual([given])
})

test('a query that was prepared for a column of another type is sent again, and accepted', async () => {
  const db = await oneConnection()
  await db.unsafe('create table note (value int)')
  const note = (value: number) => db`insert into note values (${value}) returning *`
  expect(await note(1)).toEqual([{ value: 1 }])
  await db.unsafe('alter table note alter column value type text')
  expect(await note(2)).toEqual([{ value: '2' }])
  expect(await note(3)).toEqual([{ value: '3' }])
  expect(await db`select value from note order by value`).toHaveLength(3)
})

test('a query that is sent again and the queries around it each get their own answer', async () => {
  const db = await oneConnection()
  const ask = (n: number) => db`select ${n}::int as n`
  await ask(0)
  await db.unsafe('deallocate all')
  const answers = await Promise.all([
    ask(1),
    db`select ${2}::int as n, 'for the first time' as why`,
    db.unsafe('select 3 as n, pg_sleep(0.2)'),
    ask(4),
  ])
  expect(answers.map(([row]) => row!.n)).toEqual([1, 2, 3, 4])
})

test('a query that fails when it is sent again reports that second error', async () => {
  const db = await oneConnection()
  const divide = (by: number) => db`select 1 / ${by}::int as n`
  await divide(1)
  await db.unsafe('deallocate all')
  await expect(divide(0)).rejects.toThrow('division by zero')
})

test('the same text has the same statement name in every process, and another text another name', async () => {
  const db = await oneConnection()
  await db`select ${1}::int as one`
  await db`select ${1}::int as two`
  const named = await db.unsafe('select name, statement from pg_prepared_statements order by statement')
  expect(named).toEqual([
    { name: 'keyhook_5931f08e32e319479bf6335803f628494b707755', statement: 'select $1::int as one' },
    { name: expect.stringMatching(/^keyhook_[0-9a-f]{40}$/), statement: 'select $1::int as two' },
  ])
})

test('a value that cannot be sent fails its own query, and no other on its connection', async () => {
  const db = await oneConnection()
  const ask = (at: Date) => db`select ${at}::timestamptz as at`
  const circular: Record<string, unknown> = {}
  circular.self = circular
  const at = new Date(0)
  await ask(at)
  const [before, invalid, unwritable, after] = await Promise.allSettled([
    db`select 1 as n, pg_sleep(0.2)`,
    ask(new Date(Number.NaN)),
    db`select ${circular}::text as n`,
    db`select 2 as n`,
  ])
  expect(before).toMatchObject({ status: 'fulfilled', value: [{ n: 1 }] })
  expect(invalid).toMatchObject({ status: 'rejected', reason: expect.toSatisfy(isDataError) })
  expect(unwritable).toMatchObject({ status: 'rejected', reason: expect.toSatisfy(isCircular) })
  expect(after).toMatchObject({ status: 'fulfilled', value: [{ n: 2 }] })
  expect(await ask(at)).toEqual([{ at }])
})

const isCircular = (error: Error) => /circular/.test(error.message) && !isUnavailable(error)

test('a transaction that reports success is committed, though every prepared statement was gone before its end', async () => {
  const db = await oneConnection()
  await db.unsafe('create table note (n int)')
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

test('a transaction whose prepared statement is gone fails, and the next one does not', async () => {
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

test('a transaction that ignored a failed statement does not report success', async () => {
  const db = await oneConnection()
  await db.unsafe('create table note (n int)')
  const ignoring = db.begin(async (tx) => {
    await tx`insert into note values (1)`
    await tx`select 1 / 0`.catch(() => {})
  })
  await expect(ignoring).rejects.toThrow('was rolled back')
  expect(await db`select n from note`).toEqual([])
})

test('what fails in a savepoint is undone alone, also in a nested one', async () => {
  const db = await oneConnection()
  await db.unsafe('create table note (n int)')
  await db.begin(async (tx) => {
    await tx`insert into note values (1)`
    const outer = tx.savepoint(async (one) => {
      await one`insert into note values (2)`
      await one.savepoint((two) => two`insert into note values (1 / 0)`).catch(() => {})
      await one`insert into note values (3)`
      throw new Error('undo the outer one')
    })
    await expect(outer).rejects.toThrow('undo the outer one')
    await tx`insert into note values (4)`
  })
  expect(await db`select n from note order by n`).toEqual([{ n: 1 }, { n: 4 }])
})
