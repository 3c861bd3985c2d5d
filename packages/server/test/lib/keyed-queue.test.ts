import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createKeyedQueue } from '../../src/lib/keyed-queue.ts'

test('work with one key runs in order, one at a time; work with other keys does not wait', async () => {
  const queue = createKeyedQueue()
  const events: string[] = []
  const gate = Promise.withResolvers<void>()
  const first = queue.run('a', async () => {
    events.push('a1 starts')
    await gate.promise
    events.push('a1 ends')
    throw new Error('a failure does not block the next')
  })
  const second = queue.run('a', async () => void events.push('a2'))
  await queue.run('b', async () => void events.push('b'))
  expect(events).toEqual(['a1 starts', 'b'])
  gate.resolve()
  await expect(first).rejects.toThrow('a failure')
  await second
  expect(events).toEqual(['a1 starts', 'b', 'a1 ends', 'a2'])
})

test('aborting a key stops the work that runs, rejects the work that waits, and allows later work', async () => {
  const queue = createKeyedQueue()
  const running = queue.run('a', (signal) => new Promise((_, reject) => signal.addEventListener('abort', reject)))
  let started = false
  const waiting = queue.run('a', async () => {
    started = true
  })
  const failed = Promise.allSettled([running, waiting])
  // The running work registers its listener first.
  await Promise.resolve()
  queue.abort('a', new Error('deleted'))
  const later = queue.run('a', async () => 'later')
  expect((await failed).map((one) => one.status)).toEqual(['rejected', 'rejected'])
  expect(started).toBe(false)
  await expect(later).resolves.toBe('later')
})

test('a closed queue aborts everything and accepts nothing', async () => {
  const queue = createKeyedQueue()
  const waiting = ['a', 'b'].map((key) => queue.run(key, async (signal) => signal.throwIfAborted()))
  queue.close(new Error('stopping'))
  for (const one of waiting) await expect(one).rejects.toThrow('stopping')
  await expect(queue.run('a', async () => {})).rejects.toThrow('stopping')
})

const fatal = new Error('fatal')

test('work with several keys waits for all of them, and what comes later waits for it', async () => {
  const queue = createKeyedQueue()
  const order: string[] = []
  const run = (names: string[], label: string, ms: number) =>
    queue.run(names, async () => {
      order.push(`${label} starts`)
      await sleep(ms)
      order.push(`${label} ends`)
    })
  await Promise.all([run(['a'], '1', 40), run(['b'], '2', 10), run(['a', 'b'], '3', 1), run(['b'], '4', 1)])
  expect(order).toEqual(['1 starts', '2 starts', '2 ends', '1 ends', '3 starts', '3 ends', '4 starts', '4 ends'])
})

test('an error ends its own work only, unless the others have to fail with it', async () => {
  const queue = createKeyedQueue((error) => error === fatal)
  let started = 0
  const run = (error?: Error) =>
    queue.run(['a'], async () => {
      started += 1
      await sleep(1)
      if (error !== undefined) throw error
    })
  const outcomes = await Promise.allSettled([run(new Error('own')), run(), run(fatal), run(), run()])
  expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'rejected', 'rejected', 'rejected'])
  expect(started).toBe(3)
  await expect(run()).resolves.toBeUndefined()
})
