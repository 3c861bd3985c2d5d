import { expect, test } from 'vitest'
import { uuid7, uuid7Floor, uuid7Ms } from '../../src/lib/ids.ts'

const ms = 1_800_000_000_000

test('an id is a UUIDv7 of the given time', () => {
  const id = uuid7(ms)
  expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  expect(uuid7Ms(id)).toBe(ms)
})

test('ids of different milliseconds sort by time, and ids of one are unique', () => {
  const ids = [ms - 500, ms, ms + 1, ms + 86_400_000].map(uuid7)
  expect(ids).toEqual(ids.toSorted())
  expect(new Set(Array.from({ length: 1_000 }, () => uuid7(ms))).size).toBe(1_000)
})

test('the floor of a millisecond is below all its ids and above all earlier ones', () => {
  expect(uuid7Floor(ms) < uuid7(ms)).toBe(true)
  expect(uuid7Floor(ms) > uuid7(ms - 1)).toBe(true)
  expect(uuid7Ms(uuid7Floor(ms))).toBe(ms)
})
