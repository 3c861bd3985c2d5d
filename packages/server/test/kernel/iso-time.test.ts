import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isoTime } from '../../src/kernel/iso-time.ts'

test('a time is written as JavaScript writes it, whatever the time', () => {
  const times = fc.oneof(
    fc.date({ noInvalidDate: true }),
    fc.date({ min: new Date(0), max: new Date(4e12), noInvalidDate: true }),
  )
  fc.assert(
    fc.property(times, (at) => {
      expect(isoTime(at)).toBe(at.toISOString())
    }),
    { numRuns: 20_000 },
  )
  for (const ms of [0, -1, 1, 86_399_999, 86_400_000, 8.64e15, -8.64e15]) {
    expect(isoTime(new Date(ms))).toBe(new Date(ms).toISOString())
  }
})

test('a time that is none is refused, as JavaScript refuses it', () => {
  expect(() => isoTime(new Date(Number.NaN))).toThrow(RangeError)
})
