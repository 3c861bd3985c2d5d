import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createTurns } from '../../src/lib/turns.ts'

const fatal = new Error('fatal')

test('work that shares a name runs one after the other, other work at the same time', async () => {
  const inTurn = createTurns<string>(() => false)
  const order: string[] = []
  const run = (names: string[], label: string, ms: number) =>
    inTurn(names, async () => {
      order.push(`${label} starts`)
      await sleep(ms)
      order.push(`${label} ends`)
    })
  await Promise.all([run(['a'], '1', 40), run(['b'], '2', 10), run(['a', 'b'], '3', 1), run(['b'], '4', 1)])
  expect(order).toEqual(['1 starts', '2 starts', '2 ends', '1 ends', '3 starts', '3 ends', '4 starts', '4 ends'])
})

test('an error ends its own work only, unless the others have to fail with it', async () => {
  const inTurn = createTurns<string>((error) => error === fatal)
  let started = 0
  const run = (error?: Error) =>
    inTurn(['a'], async () => {
      started += 1
      await sleep(1)
      if (error !== undefined) throw error
    })
  const outcomes = await Promise.allSettled([run(new Error('own')), run(), run(fatal), run(), run()])
  expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'rejected', 'rejected', 'rejected'])
  expect(started).toBe(3)
  await expect(run()).resolves.toBeUndefined()
})
