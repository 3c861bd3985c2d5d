import { expect, test } from 'vitest'
import { readRetrySchedule } from '../../src/domain/retry-schedule.ts'
import { unknownOutcome } from '../../src/webhooks/dispatching/attempt-record.ts'
import { systemClock } from '../../src/webhooks/dispatching/clock.ts'
import { type LaneSender, openLane, type Starting } from '../../src/webhooks/dispatching/lane.ts'
import { type Attempted, createSending } from '../../src/webhooks/dispatching/sending.ts'
import type { Exchange } from '../../src/webhooks/sender/port.ts'

/** What is settled after a second try with this outcome. */
function settledAfter(exchange: Partial<Exchange>): { tries: number; retryMs: number | null } {
  const outcomes: { tries: number; retryMs: number | null }[] = []
  const { sendReady } = createSending({
    clock: systemClock,
    random: () => 0.5,
    schedule: readRetrySchedule('0s,5s,5m')!,
    onEnd: () => 0,
    interrupt() {},
    settle: (one) => void outcomes.push(one),
    attempted(_one: Attempted) {},
    isHeld: async () => true,
    consider() {},
  })
  const sender: LaneSender = {
    width: { now: 1, bestUs: 0 },
    headers: () => [],
    send: (_headers, _body, done) => done({ ...unknownOutcome, status: 'failed', ...exchange }),
    interrupt() {},
  }
  const lane = openLane({ headSeq: 1, cursorSeq: 0, webhook: {} } as Parameters<typeof openLane>[0], sender, 4)
  const times = { hurryMs: 0, overMs: Number.POSITIVE_INFINITY }
  lane.ready.push({ lane, delivery: { body: Buffer.from('') }, begun: { tries: 1 }, ...times } as Starting)
  sendReady(lane)
  return outcomes[0]!
}

test('a failure of the receiver counts as a try', () => {
  const error = { code: 'connect_refused', detail: '' } as const
  expect(settledAfter({ error })).toMatchObject({ tries: 2, retryMs: 300_000 })
})

// Otherwise an organization that uses all file descriptors would use up the tries of all others.
test('a lack of file descriptors does not count as a try, and is retried soon', () => {
  const error = { code: 'sender_exhausted', detail: 'EMFILE' } as const
  expect(settledAfter({ error })).toMatchObject({ tries: 1, retryMs: 1_500 })
})

test('an interrupted attempt does not count as a try, and is due at once', () => {
  expect(settledAfter({ status: 'interrupted' })).toMatchObject({ tries: 1, retryMs: 0 })
})
