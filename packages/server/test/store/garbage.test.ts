import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { test } from 'vitest'
import { startApiForTest } from '../support/installation.ts'
import { until } from '../webhooks/support/delivery-test.ts'

const megabyte = 2 ** 20

// Seen to fail without the mend of the driver: all forty are there still.
test('a query that has its answer goes with the next small collection, and what it has carried with it', async () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as (options?: { type: 'minor' }) => void
  const { db } = await startApiForTest()
  const ask = async () => {
    await Object.assign(db`select 1`, { carried: new ArrayBuffer(megabyte) })
  }
  const carriedMb = () => Math.round(process.memoryUsage().arrayBuffers / megabyte)
  for (let i = 0; i < 100; i++) await ask()
  collect()
  await until(() => carriedMb() < 10, 'everything to be collected')
  const before = carriedMb()
  for (let i = 0; i < 40; i++) await ask()
  collect({ type: 'minor' })
  await until(() => carriedMb() - before < 10, 'the queries to be collected')
})
