import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { connect, type Database, type Executor, isUnavailable } from '../../src/db/database.ts'
import { toFault } from '../../src/http/problems.ts'
import { createInstallation } from '../kit/installation.ts'
import { bridgeTo } from '../kit/processes.ts'
import { until } from '../kit/until.ts'

/* Queries whose connection is lost. An error without a handler would end the process, which the test runner reports. */

async function pools(connectionsMax: number) {
  const installation = await createInstallation()
  onTestFinished(() => installation.close())
  await installation.db`create table note (text text)`
  const db = connect(installation.target, { name: 'victim', connectionsMax })
  onTestFinished(() => db.end({ timeout: 5 }))
  return { admin: installation.db, db, target: installation.target }
}

const killVictims = (admin: Database) => admin`
  select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'victim' and datname = current_database()`

/** Another connection may have been killed as well. */
async function works(db: Database): Promise<void> {
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

test('a transaction whose connection is lost fails as unavailable, and the pool works on', async () => {
  const { admin, db } = await pools(2)
  for (let round = 0; round < 6; round++) {
    const inTheMiddle = db.begin(async (tx) => {
      await tx`insert into note values ('lost')`
      await killVictims(admin)
      await tx`insert into note values ('lost too')`
    })
    await expect(inTheMiddle).rejects.toSatisfy(isUnavailable)
    // More at once than there are connections: a broken one that stayed in the pool would be used.
    await Promise.all([works(db), works(db), works(db)])
  }
  expect(await admin`select 1 from note`).toHaveLength(0)
})

test('where no new connection can be made, queries fail and do not wait forever', async () => {
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
  await works(db)
})

test('the next statement of a lost transaction does not run outside of it', async () => {
  const { admin, db } = await pools(2)
  const lost = db.begin(async (tx) => {
    await tx`insert into note values ('inside')`
    await killVictims(admin)
    // Another query gets a new connection.
    await works(db)
    await tx`insert into note values ('outside')`
  })
  await expect(lost).rejects.toSatisfy(isUnavailable)
  await sleep(50)
  expect(await admin`select text from note`).toEqual([])
})

test('every query ends, with an answer or an error, when sockets are reset under a stream of them', async () => {
  const { target } = await pools(1)
  const bridge = await bridgeTo(target)
  const db = connect(bridge.target, { name: 'victim', connectionsMax: 4 })
  onTestFinished(() => db.end({ timeout: 1 }))
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
  await until(() => answered >= asked)
  expect(answered).toBe(asked)
})

/** Through a bridge that can be silenced. */
async function silentPool(silentMsMax = 500) {
  const installation = await createInstallation()
  onTestFinished(() => installation.close())
  const bridge = await bridgeTo(installation.target)
  const db = connect(bridge.target, { name: 'victim', connectionsMax: 1, silentMsMax })
  onTestFinished(() => db.end({ timeout: 1 }))
  return { admin: installation.db, bridge, db }
}

test('a connection that does not answer is closed; an idle one is not', async () => {
  const { bridge, db } = await silentPool()
  const [before] = await db`select pg_backend_pid() as pid`
  await sleep(1_200)
  expect(await db`select pg_backend_pid() as pid`).toEqual([before])
  bridge.silence()
  await expect(db`select 1`).rejects.toSatisfy(isUnavailable)
  expect(await db`select 1 as one`).toEqual([{ one: 1 }])
})

test('nothing queues behind a query that hangs: the transaction ends at once, and a new connection serves the next', async () => {
  const silentMsMax = 2_000
  const { bridge, db } = await silentPool(silentMsMax)
  await db`select 1`
  const startedAt = performance.now()
  const hanging = db.begin(async (tx) => {
    await tx`select 1`
    bridge.silence()
    await tx`select 2`.catch(() => {})
    await tx`select 3`
  })
  const next = db`select 1 as one`
  await expect(hanging).rejects.toThrow('Query read timeout')
  expect(performance.now() - startedAt).toBeLessThan(2 * silentMsMax)
  expect(await next).toEqual([{ one: 1 }])
})

test('a statement that is sent after its transaction has ended fails, and does not run', async () => {
  const { admin, db } = await pools(1)
  const stray = Promise.withResolvers<void>()
  const ended = db.begin(async (tx) => {
    const late = async () => {
      await sleep(50)
      await tx`insert into note values ('stray')`
    }
    late().then(stray.resolve, stray.reject)
    stray.promise.catch(() => {})
    throw new Error('ended early')
  })
  await expect(ended).rejects.toThrow('ended early')
  await expect(stray.promise).rejects.toThrow('The transaction has ended.')
  expect(await admin`select text from note`).toEqual([])
})

test('closing waits for queries that run and that wait for a connection', async () => {
  const { db } = await pools(1)
  const answers = Promise.all([db`select pg_sleep(0.1), 1 as n`, db`select pg_sleep(0.1), 2 as n`, db`select 3 as n`])
  await sleep(20)
  await db.end({ timeout: 5 })
  expect((await answers).map(([row]) => row!.n)).toEqual([1, 2, 3])
  await expect(db`select 1`).rejects.toSatisfy(isUnavailable)
})

test('closing ends queries, transactions and sessions that take too long', async () => {
  const { db } = await pools(3)
  const session = await db.reserve()
  const never = Promise.withResolvers<void>()
  const work = Promise.allSettled([
    db`select pg_sleep(30)`,
    db.begin(async (tx) => {
      await never.promise
      await tx`select 1`
    }),
  ])
  await sleep(100)
  await db.end({ timeout: 0 })
  await expect(session`select 1`).rejects.toSatisfy(isUnavailable)
  session.release()
  never.resolve()
  for (const outcome of await work)
    expect(outcome).toMatchObject({ status: 'rejected', reason: expect.toSatisfy(isUnavailable) })
})

test('a reserved connection is closed on release, with its settings', async () => {
  const { db } = await pools(1)
  const session = await db.reserve()
  await session`select set_config('acme.note', 'ours', false)`
  session.release()
  expect(await db`select current_setting('acme.note', true) as note`).toEqual([{ note: null }])
})

test('a request waits for a free connection only as long as for a new one', async () => {
  const { target } = await pools(1)
  const db = connect({ ...target, connectSeconds: 1 }, { name: 'victim', connectionsMax: 1 })
  onTestFinished(() => db.end({ timeout: 5 }))
  const busy = db`select pg_sleep(1.5)`.then(() => 'answered')
  await expect(db`select 1`).rejects.toSatisfy(isUnavailable)
  expect(await busy).toBe('answered')
})

test('notifications arrive again after their connection was lost', async () => {
  const { admin, db } = await pools(1)
  const received: string[] = []
  const stop = await db.listen('channel', (payload) => received.push(payload))
  await admin`select pg_notify('channel', 'first')`
  await expect.poll(() => received).toEqual(['first'])
  await killVictims(admin)
  await expect
    .poll(async () => {
      await admin`select pg_notify('channel', 'again')`
      return received
    })
    .toContain('again')
  await stop()
  const before = received.length
  await admin`select pg_notify('channel', 'late')`
  await sleep(50)
  expect(received).toHaveLength(before)
})

test.each(['53100', '53200'])(
  'a server without disk space or memory (%s) is an outage, not an internal error',
  async (code) => {
    const { db } = await pools(1)
    const error = await db
      .unsafe(`do $$ begin raise exception 'full' using errcode = '${code}'; end $$`)
      .catch((thrown: unknown) => thrown)
    expect(toFault(error)).toMatchObject({ code: 'service.unavailable', status: 503 })
  },
)

test('a statement that exceeded a time limit is an outage, not an internal error', async () => {
  const { db } = await pools(1)
  const tooLong = db.begin(async (tx) => {
    await tx`set local statement_timeout = 20`
    await tx`select pg_sleep(5)`
  })
  const error = await tooLong.catch((thrown: unknown) => thrown)
  expect(toFault(error)).toMatchObject({ code: 'service.unavailable', status: 503 })
})

test('lost connections that have a message and no code, and networks without a route, are an outage', () => {
  for (const message of ['Connection terminated unexpectedly', 'timeout exceeded when trying to connect'])
    expect(toFault(new Error(message)).status, message).toBe(503)
  for (const code of ['EHOSTUNREACH', 'ENETUNREACH'])
    expect(toFault(Object.assign(new Error(code), { code })).status, code).toBe(503)
  expect(toFault(new Error('connection terminated the discussion')).status).toBe(500)
})

test('a transaction whose client is frozen is ended after five seconds, and its locks are released', async () => {
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
  await works(db)
})

test('the limit for idle transactions does not outlive its transaction', async () => {
  const { db } = await pools(1)
  const shown = (sql: Executor) => sql`show idle_in_transaction_session_timeout`
  const [before] = await shown(db)
  expect(await db.begin(shown)).toEqual([{ idle_in_transaction_session_timeout: '5s' }])
  expect(await shown(db)).toEqual([before])
})
