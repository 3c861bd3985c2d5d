import { expect, test } from 'vitest'
import { failingForTwoDays } from './scenarios/suspension.ts'

test('a receiver that fails for two days, with 10,000 events, gets all of them in order and within its limit when it is back', {
  timeout: 300_000,
}, async () => {
  const { probes, afterMs, most, isComplete, order } = await failingForTwoDays()
  expect(probes).toBeGreaterThanOrEqual(23)
  expect(probes).toBeLessThanOrEqual(25)
  expect(isComplete).toBe(true)
  expect(most).toBeLessThanOrEqual(56)
  const [, ...waited] = order
  expect(waited.length).toBeGreaterThan(9_000)
  expect(waited).toEqual(waited.toSorted((a, b) => a - b))
  // 10,000 at 50 a second are 200 s.
  expect(afterMs).toBeLessThan(260_000)
})
