import fc from 'fast-check'
import { expect, test } from 'vitest'
import { amountMinor, invoiceLines, monthOf, monthPeriod, totalMinor, usedSeconds } from '../../src/billing/invoice.ts'

const day = 86_400_000
const time = fc.date({ min: new Date('2000-01-01'), max: new Date('2099-12-31'), noInvalidDate: true })

test('a month starts where the one before ends, in UTC, in every year', () => {
  fc.assert(
    fc.property(time, (at) => {
      const period = monthPeriod(monthOf(at))!
      expect(period.from <= at && at < period.to).toBe(true)
      const lastTime = new Date(period.from.getTime() - 1)
      expect(monthPeriod(monthOf(lastTime))!.to).toEqual(period.from)
      expect((period.to.getTime() - period.from.getTime()) / day).toBeGreaterThanOrEqual(28)
    }),
  )
  expect(monthPeriod('2024-02')).toEqual({ from: new Date('2024-02-01'), to: new Date('2024-03-01') })
  for (const text of ['2026-13', '2026-00', '26-01', '2026-1', '2026-01-01', '']) expect(monthPeriod(text)).toBeNull()
  expect(monthPeriod('0001-01')?.from.toISOString()).toBe('0001-01-01T00:00:00.000Z')
  expect(monthPeriod('0000-12')).toBeNull()
})

test('the billed months add up to the usage: nothing is billed twice, and at most a second per month is lost', () => {
  fc.assert(
    fc.property(time, fc.integer({ min: 0, max: 400 * day }), (from, lengthMs) => {
      const to = new Date(from.getTime() + lengthMs)
      let seconds = 0
      let months = 0
      for (let at = monthPeriod(monthOf(from))!; at.from < to; at = monthPeriod(monthOf(at.to))!) {
        seconds += usedSeconds({ from, to }, at)
        months += 1
      }
      expect(seconds).toBeLessThanOrEqual(lengthMs / 1_000)
      expect(seconds).toBeGreaterThan(lengthMs / 1_000 - months - 1)
    }),
  )
})

test('an amount is a whole number of minor units, within half a unit of the exact one', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 31 * 86_400 }), fc.integer({ min: 0, max: 1_000_000 }), (seconds, price) => {
      const amount = amountMinor(seconds, price)
      expect(Number.isInteger(amount)).toBe(true)
      expect(Math.abs(amount * 3_600 - seconds * price) * 2).toBeLessThanOrEqual(3_600)
    }),
  )
  // A half is rounded up.
  expect(amountMinor(1_800, 1)).toBe(1)
  expect(amountMinor(1_799, 1)).toBe(0)
})

test('an invoice is the sum of its lines, and a database without usage has no line', () => {
  const period = monthPeriod('2026-10')!
  const usage = [
    { databaseId: 'a', name: 'whole month', from: new Date('2026-01-01'), to: null },
    {
      databaseId: 'b',
      name: 'two hours',
      from: new Date('2026-10-05T10:00:00Z'),
      to: new Date('2026-10-05T12:00:00Z'),
    },
    { databaseId: 'c', name: 'before', from: new Date('2026-09-01'), to: new Date('2026-10-01') },
    { databaseId: 'd', name: 'after', from: new Date('2026-11-01'), to: null },
  ]
  const lines = invoiceLines(usage, period, 3)
  expect(lines.map((line) => [line.databaseId, line.seconds, line.amountMinor])).toEqual([
    ['a', 31 * 86_400, 31 * 24 * 3],
    ['b', 7_200, 6],
  ])
  expect(totalMinor(lines)).toBe(31 * 24 * 3 + 6)
})
