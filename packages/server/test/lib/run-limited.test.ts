import { expect, test } from 'vitest'
import { runLimited, TookTooLong } from '../../src/lib/run-limited.ts'

test('work that does not end is stopped', () => {
  const work = () => {
    for (;;);
  }
  expect(() => runLimited(work, 20)).toThrow(TookTooLong)
})

test('work that had to wait for the processor is called again', () => {
  const cell = new Int32Array(new SharedArrayBuffer(4))
  let calls = 0
  const work = () => {
    calls += 1
    if (calls < 3) Atomics.wait(cell, 0, 0, 200)
    return 'done'
  }
  expect(runLimited(work, 100)).toBe('done')
  expect(calls).toBeGreaterThanOrEqual(3)
})

test('an error of the work is its own', () => {
  const work = () => {
    throw new RangeError('deep')
  }
  expect(() => runLimited(work, 20)).toThrow(RangeError)
})
