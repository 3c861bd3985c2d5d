import { expect, test } from 'vitest'
import { outcomeOf } from '../src/commands/webhook-deliveries.ts'

test('a failed attempt is shown by the HTTP status of its answer, or by what went wrong instead of one', () => {
  expect(outcomeOf(204, null)).toBe(204)
  expect(outcomeOf(500, 'status_not_successful')).toBe(500)
  // The body did not arrive in time.
  expect(outcomeOf(200, 'timeout')).toBe('timeout')
  expect(outcomeOf(undefined, 'dns_failed')).toBe('dns_failed')
  expect(outcomeOf(null, null)).toBe(null)
})
