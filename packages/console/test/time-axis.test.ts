import { expect, test, vi } from 'vitest'

const hourMs = 3_600_000

/** The labels of bars that start at `first` and are `everyHours` apart, in a browser of this time zone. */
async function ticksIn(zone: string, bars: { first: string; everyHours: number; count: number; widthPx: number }) {
  vi.stubEnv('TZ', zone)
  vi.resetModules()
  const { timeTicks } = await import('../src/components/time-axis.ts')
  const times = Array.from(
    { length: bars.count },
    (_, index) => Date.parse(bars.first) + index * bars.everyHours * hourMs,
  )
  const ticks = timeTicks(times, bars.widthPx)
  vi.unstubAllEnvs()
  return ticks
}

const [newYork, kolkata] = ['America/New_York', 'Asia/Kolkata']

test('a day is labelled at the round hours of the local clock, also when it changes, with the date where a day starts', async () => {
  // In New York, 2:00 of March 8 is 3:00.
  const day = { first: '2026-03-07T20:00:00Z', everyHours: 1, count: 24, widthPx: 540 }
  expect(await ticksIn(newYork, day)).toEqual([
    { index: 3, text: 'Mar 7, 18:00' },
    { index: 9, text: 'Mar 8, 00:00' },
    { index: 14, text: '06:00' },
    { index: 20, text: '12:00' },
  ])
  expect(await ticksIn(kolkata, day)).toEqual([
    { index: 5, text: 'Mar 8, 06:30' },
    { index: 11, text: '12:30' },
    { index: 17, text: '18:30' },
    { index: 23, text: 'Mar 9, 00:30' },
  ])
})

test('a week is labelled where the days of the local clock start, also when one of them is longer', async () => {
  const week = { first: '2026-10-29T00:00:00Z', everyHours: 6, count: 28, widthPx: 900 }
  const texts = async (zone: string) => (await ticksIn(zone, week)).map(({ text }) => text)
  expect(await texts(newYork)).toEqual(['Oct 29', 'Oct 30', 'Oct 31', 'Nov 1', 'Nov 2', 'Nov 3', 'Nov 4'])
  expect(await texts(kolkata)).toEqual(['Oct 30', 'Oct 31', 'Nov 1', 'Nov 2', 'Nov 3', 'Nov 4'])
})

test('a narrow chart has fewer labels', async () => {
  const day = { first: '2026-06-01T00:00:00Z', everyHours: 1, count: 24, widthPx: 270 }
  expect(await ticksIn(kolkata, day)).toEqual([
    { index: 7, text: 'Jun 1, 12:30' },
    { index: 19, text: 'Jun 2, 00:30' },
  ])
})
