import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { toFault } from '../../src/http/problems.ts'
import { connect, type Database, type Executor, isUnavailable, learnTypesOnce } from '../../src/store/database.ts'
import { createInstallation } from '../support/installation.ts'
import { bridgeTo } from '../support/processes.ts'

/*
 * What becomes of queries whose connection is lost. The driver's own ways would end the process here, which the test
 * runner reports as an unhandled error; remove a mend from store/driver-mends to see it.
 */

async function pools(connectionsMax: number) {
  const installation = await createInstallation()
  onTestFinished(() => installation.close())
  await installation.db`create table note (text text)`
  const db = connect(installation.target, { name: 'victim', connectionsMax })
  onTestFinished(() => db.end({ timeout: 5 }))
  await learnTypesOnce(db)
  return { admin: installation.db, db, target: installation.target }
}

const killVictims = (admin: Database) => admin`
  select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'victim' and datname = current_database()`

/** Another connection may just be noticing that it was killed as well. */
async function goesOn(db: Database): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      await db`select 1`
      return
    } catch (error) {
      if (!isUnavailable(error) || tries > 100) throw error
      await sleep(10)
    }
  }
}

test('a transaction whose connection is lost fails as unavailable, and the pool goes on', async () => {
  const { admin, db } = await pools(2)
  for (let round = 0; round < 6; round++) {
    const inTheMiddle = db.begin(async (tx) => {
      await tx`insert into note values ('lost')`
      await killVictims(admin)
      await tx`insert into note values ('lost too')`
    })
    await expect(inTheMiddle).rejects.toSatisfy(isUnavailable)
    // More at once than there are connections: one that had been spoiled would keep its queries for ever.
    await Promise.all([goesOn(db), goesOn(db), goesOn(db)])
  }
  expect(await admin`select 1 from note`).toHaveLength(0)
})

test('where no new connection is to be had, what is asked is refused and does not wait for ever', async () => {
  const { admin, db } = await pools(1)
  const allow = (allowed: boolean) =>
    admin`update pg_database set datallowconn = ${allowed} where datname = current_database()`
  const inTheMiddle = db`select pg_sleep(30)`
  inTheMiddle.catch(() => {})
  const isAsleep = async () =>
    (await admin`select 1 from pg_stat_activity where application_name = 'victim' and wait_event = 'PgSleep'`).length
  await expect.poll(isAsleep).toBe(1)
  await allow(false)
  await killVictims(admin)
  await expect(inTheMiddle).rejects.toSatisfy(isUnavailable)
  for (let n = 0; n < 3; n++) await expect(db`select 1`).rejects.toSatisfy(isUnavailable)
  await allow(true)
  await goesOn(db)
})

test('what a lost transaction says next is not said outside of it', async () => {
  const { admin, db } = await pools(1)
  const lost = db.begin(async (tx) => {
    await tx`insert into note values ('inside')`
    await killVictims(admin)
    // Somebody else gets the only connection, made anew.
    await goesOn(db)
    await tx`insert into note values ('outside')`
  })
  await expect(lost).rejects.toSatisfy(isUnavailable)
  await sleep(50)
  expect(await admin`select text from note`).toEqual([])
})

test('every query is answered, one way or the other, when sockets are reset under a stream of them', async () => {
  const { target } = await pools(1)
  const bridge = await bridgeTo(target)
  const db = connect(bridge.target, { name: 'victim', connectionsMax: 4 })
  onTestFinished(() => db.end({ timeout: 1 }))
  await learnTypesOnce(db)
  let asked = 0
  let answered = 0
  const ask = async () => {
    asked += 1
    await db`select ${asked}::int`.catch(() => {})
    answered += 1
  }
  for (let round = 0; round < 30; round++) {
    const resets = sleep(round % 5).then(() => bridge.reset())
    for (let i = 0; i < 40; i++) {
      void ask()
      await turn()
    }
    await resets
  }
  for (let waited = 0; answered < asked && waited < 500; waited++) await sleep(20)
  expect(answered).toBe(asked)
})

test('a connection that is lost while the driver asks for types is made anew, and ends nothing', async () => {
  const { target } = await pools(1)
  const bridge = await bridgeTo(target, { cutAt: 'pg_catalog.pg_type' })
  const db = connect(bridge.target, { name: 'victim', connectionsMax: 1 })
  onTestFinished(() => db.end({ timeout: 1 }))
  expect(await db`select 1 as one`).toEqual([{ one: 1 }])
})

test('a connection that says nothing any more is given up; one that has nothing to say is not', async () => {
  const installation = await createInstallation()
  onTestFinished(() => installation.close())
  const bridge = await bridgeTo(installation.target)
  const db = connect(bridge.target, { name: 'victim', connectionsMax: 1, silentMsMax: 500 })
  onTestFinished(() => db.end({ timeout: 1 }))
  await learnTypesOnce(db)
  const [before] = await db`select pg_backend_pid() as pid`
  await sleep(1_200)
  expect(await db`select pg_backend_pid() as pid`).toEqual([before])
  bridge.silence()
  await expect(db`select 1`).rejects.toSatisfy(isUnavailable)
  expect(await db`select 1 as one`).toEqual([{ one: 1 }])
})

test.each(['53100', '53200'])(
  'a server without room (%s) may have some another time, and it is no fault of ours',
  async (code) => {
    const { db } = await pools(1)
    const error = await db
      .unsafe(`do $$ begin raise exception 'full' using errcode = '${code}'; end $$`)
      .catch((thrown: unknown) => thrown)
    expect(toFault(error)).toMatchObject({ code: 'service.unavailable', status: 503 })
  },
)

test('what a limit of time cut short may be tried again, and is no fault of ours', async () => {
  const { db } = await pools(1)
  const cutShort = db.begin(async (tx) => {
    await tx`set local statement_timeout = 20`
    await tx`select pg_sleep(5)`
  })
  const error = await cutShort.catch((thrown: unknown) => thrown)
  expect(toFault(error)).toMatchObject({ code: 'service.unavailable', status: 503 })
})

test('the words of the job queue for a lost connection, and a network that leads nowhere, are an outage like others', () => {
  for (const words of ['Connection terminated unexpectedly', 'timeout exceeded when trying to connect'])
    expect(toFault(new Error(words)).status, words).toBe(503)
  for (const code of ['EHOSTUNREACH', 'ENETUNREACH'])
    expect(toFault(Object.assign(new Error(code), { code })).status, code).toBe(503)
  expect(toFault(new Error('connection terminated our patience')).status).toBe(500)
})

// Seen to fail without the bound: the other waits for as long as the client says nothing.
test('a transaction whose client says nothing any more is ended, and what it held is free', async () => {
  const { admin, db } = await pools(1)
  await admin`insert into note values ('held')`
  const begun = performance.now()
  const held = Promise.withResolvers<void>()
  const frozen = db.begin(async (tx) => {
    await tx`update note set text = 'by the one that froze'`
    held.resolve()
    await sleep(8_000)
    await tx`select 1`
  })
  frozen.catch(() => {})
  await held.promise
  await admin`update note set text = 'by the other'`
  expect(performance.now() - begun).toBeGreaterThan(4_000)
  await expect(frozen).rejects.toSatisfy(isUnavailable)
  expect(await admin`select text from note`).toEqual([{ text: 'by the other' }])
  await goesOn(db)
}, 30_000)

test('the bound is of the transaction alone: what follows on its connection is as it was', async () => {
  const { db } = await pools(1)
  const shown = (sql: Executor) => sql`show idle_in_transaction_session_timeout`
  const [before] = await shown(db)
  expect(await db.begin('isolation level serializable', shown)).toEqual([{ idle_in_transaction_session_timeout: '5s' }])
  expect(await shown(db)).toEqual([before])
})
