import { expect, test } from 'vitest'
import { settled, unknownOutcome } from '../../src/webhooks/dispatching/attempt-record.ts'

test('an attempt that a stopped machine measured in hours can be stored all the same', () => {
  const begun = { laneId: 1, token: 1, eventSeq: 1, attempt: 1, tries: 0, attemptId: '', startedAtMs: 0, begunNo: 1 }
  const hours = 3 * 3_600_000_000
  const record = settled(begun, { ...unknownOutcome, durationUs: hours, firstByteUs: hours, dnsUs: 5 }, [], 1, null)
  expect(record).toMatchObject({ durationUs: 2 ** 31 - 1, firstByteUs: 2 ** 31 - 1, dnsUs: 5, tlsUs: null })
})
