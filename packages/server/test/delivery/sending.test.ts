import { expect, onTestFinished, test } from 'vitest'
import { connect } from '../../src/db/database.ts'
import { holdOpen } from '../kit/hold-open.ts'
import { startApiForTest } from '../kit/installation.ts'
import { until } from '../kit/until.ts'

test('a query is not sent behind one that waits for a lock, also when no connection is idle', async () => {
  const api = await startApiForTest()
  const letGo = await holdOpen(api.db, (tx) => tx`select pg_advisory_xact_lock(1)`)
  const db = connect(api.target, { name: 'two', connectionsMax: 2 })
  onTestFinished(() => db.end({ timeout: 1 }))
  await Promise.all([db`select pg_sleep(0.1)`, db`select pg_sleep(0.1)`])
  let isAnswered = false
  const waiting = db`select pg_advisory_xact_lock(1)`.then(() => {
    isAnswered = true
  })
  const blocked = () => api.db`select from pg_stat_activity where cardinality(pg_blocking_pids(pid)) > 0`
  await until(async () => (await blocked()).length > 0)
  const late = setTimeout(letGo, 5_000)
  await Promise.all([db`select pg_sleep(0.1)`, db`select 1`, db`select 1`, db.begin((tx) => tx`select 1`)])
  clearTimeout(late)
  expect(isAnswered).toBe(false)
  await letGo()
  await waiting
})

test('a query is sent at once, before other work that the process has queued', async () => {
  const { db } = await startApiForTest()
  const ask = () => db<{ at: Date }[]>`select clock_timestamp() as at`.then(([row]) => row!.at.getTime())
  await ask()
  let freeAt = 0
  setImmediate(() => {
    const until = Date.now() + 1_000
    while (Date.now() < until);
    freeAt = Date.now()
  })
  const askedAt = await ask()
  expect(freeAt).toBeGreaterThan(0)
  expect(askedAt).toBeLessThan(freeAt)
})
