import { expect, test } from 'vitest'
import { scheduleText } from '../src/pages/databases/schedule-words.ts'

const textOf = (every_hours: number | null, keep: number, next_at: string | null = '2026-01-31T02:10:00Z') =>
  scheduleText({ every_hours: null, keep: null, in_force: { every_hours, keep, next_at } })

test('a backup schedule says how often, at what time, and for how long', () => {
  expect(textOf(24, 7)).toBe('Every day at about 02:10 UTC. The newest 7 are kept, which is about 7 days.')
  expect(textOf(168, 4)).toBe(
    'Every week on Saturday at about 02:10 UTC. The newest 4 are kept, which is about 28 days.',
  )
  expect(textOf(6, 4)).toBe('Every 6 hours. The newest 4 are kept, which is about 24 hours.')
  expect(textOf(5, 1)).toBe('Every 5 hours. The newest one is kept.')
})

test('without a first backup there is no time yet, and without a schedule there are no backups', () => {
  expect(textOf(24, 7, null)).toBe('Every day. The newest 7 are kept, which is about 7 days.')
  expect(textOf(null, 7, null)).toBe('No backups are made without being asked for.')
})
