import { expect, test } from 'vitest'
import { interrupted } from '../../src/delivery/dispatcher/outcome.ts'
import type { Attempted } from '../../src/delivery/dispatcher/ports.ts'
import { createAttemptLog } from '../../src/delivery/engine.ts'
import type { Exchange } from '../../src/delivery/sender/port.ts'
import { attemptIdOf, uuid7 } from '../../src/lib/ids.ts'
import { captureLog } from '../kit/captured-log.ts'

const attemptId = uuid7(Date.now())

/** The lines that are logged of attempts with these outcomes. */
function linesFor(...exchanges: Partial<Exchange>[]): Record<string, unknown>[] {
  const { log, lines } = captureLog()
  const { attempted } = createAttemptLog(log)
  for (const exchange of exchanges) {
    attempted({
      lane: { lease: { orgId: 'org_1', webhookId: 'wh_1' } },
      delivery: { eventId: 'order:7_a-B', eventType: 'database.created' },
      attempt: { attempt: 2, attemptId },
      exchange: { ...interrupted, ...exchange },
      retryMs: exchange.status === 'succeeded' ? null : 5_000,
    } as unknown as Attempted)
  }
  return lines()
}

const common = {
  level: 30,
  orgId: 'org_1',
  webhookId: 'wh_1',
  eventId: 'order:7_a-B',
  type: 'database.created',
  attempt: 2,
  deliveryId: attemptIdOf(attemptId),
  msg: 'delivery.attempted',
}

test('an attempt is one line, whatever came of it, without anything that the receiver sent', () => {
  const response = { status: 200, headers: 'a: secret', body: 'secret', complete: true }
  const lines = linesFor(
    { status: 'succeeded', error: null, durationUs: 1_234, address: '2001:db8::1', response },
    { status: 'failed', error: { code: 'timeout', detail: 'secret' } },
  )
  expect(lines).toEqual([
    expect.objectContaining({
      ...common,
      status: 'succeeded',
      responseStatus: 200,
      durationMs: 1.234,
      address: '2001:db8::1',
      retryMs: null,
    }),
    expect.objectContaining({
      ...common,
      status: 'failed',
      error: 'timeout',
      durationMs: null,
      address: null,
      retryMs: 5_000,
    }),
  ])
  expect(JSON.stringify(lines)).not.toContain('secret')
})
