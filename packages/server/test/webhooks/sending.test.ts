import { expect, test } from 'vitest'
import { readRetrySchedule } from '../../src/domain/retry-schedule.ts'
import { unknownOutcome } from '../../src/webhooks/dispatching/attempt-record.ts'
import { systemClock } from '../../src/webhooks/dispatching/clock.ts'
import { type LaneSender, openLane, type Starting } from '../../src/webhooks/dispatching/lane.ts'
import { type Attempted, createSending } from '../../src/webhooks/dispatching/sending.ts'
import type { Exchange } from '../../src/webhooks/sending/exchange.ts'

/** What is written down of a second try that ends like this. */
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

test('a failure of the receiver is one of its tries', () => {
  const error = { code: 'connect_refused', detail: '' } as const
  expect(settledAfter({ error })).toMatchObject({ tries: 2, retryMs: 300_000 })
})

// Seen to fail where it counts: one organization that holds every file of the process used up the tries of all others.
test('what the sender is short of is none, and is tried again in a moment', () => {
  const error = { code: 'sender_exhausted', detail: 'EMFILE' } as const
  expect(settledAfter({ error })).toMatchObject({ tries: 1, retryMs: 1_500 })
})

test('an attempt that is cut off is none, and is due at once', () => {
  expect(settledAfter({ status: 'interrupted' })).toMatchObject({ tries: 1, retryMs: 0 })
})
