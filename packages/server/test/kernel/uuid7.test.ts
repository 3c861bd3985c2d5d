import { expect, test } from 'vitest'
import { uuid7, uuid7Ms } from '../../src/kernel/uuid7.ts'

const ms = 1_800_000_000_000

test('ids of one process are in order, within a millisecond and when the clock goes back a little', () => {
  const ids = [ms, ms, ms + 1, ms - 500, ms - 500, ms + 2].map(uuid7)
  expect(ids).toEqual(ids.toSorted())
  expect(new Set(ids).size).toBe(ids.length)
})

test('they follow a clock that was far ahead and is right again', () => {
  expect(uuid7Ms(uuid7(ms + 86_400_000))).toBe(ms + 86_400_000)
  expect(uuid7Ms(uuid7(ms))).toBe(ms)
})
