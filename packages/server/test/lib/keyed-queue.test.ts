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
