import { expect, test } from 'vitest'
import { interrupted } from '../../src/delivery/dispatcher/outcome.ts'
import type { Attempted } from '../../src/delivery/dispatcher/work.ts'
import { createAttemptLog } from '../../src/delivery/engine.ts'
import type { Exchange } from '../../src/delivery/sender/port.ts'
import { attemptIdOf, uuid7 } from '../../src/lib/ids.ts'

const attemptId = uuid7(Date.now())

/** The fields that are logged of attempts with these outcomes. */
function linesFor(isOn: boolean, ...exchanges: Partial<Exchange>[]): string[] {
  const lines: string[] = []
  const { attempted } = createAttemptLog({ isOn: () => isOn, write: (fields) => void lines.push(fields) })
  for (const exchange of exchanges) {
    attempted({
      lane: { lease: { orgId: 'org_1', webhookId: 'wh_1' } },
      delivery: { eventId: 'order:7_a-B', eventType: 'database.created' },
      attempt: { attempt: 2, attemptId },
      exchange: { ...interrupted, ...exchange },
      retryMs: exchange.status === 'succeeded' ? null : 5_000,
    } as unknown as Attempted)
  }
  return lines
}

const common = {
  orgId: 'org_1',
  webhookId: 'wh_1',
  eventId: 'order:7_a-B',
  type: 'database.created',
  attempt: 2,
  deliveryId: attemptIdOf(attemptId),
  msg: 'delivery.attempted',
}

test('an attempt is one line of JSON, whatever came of it', () => {
  const response = { status: 200, headers: 'a: "b"', body: 'ok "ok"', complete: true }
  const lines = linesFor(
    true,
    { status: 'succeeded', error: null, durationUs: 1_234, address: '2001:db8::1', response },
    { status: 'failed', error: { code: 'timeout', detail: 'a "detail"' } },
  )
  expect(lines.join()).not.toContain('\n')
  expect(lines.map((line) => JSON.parse(`{${line}}`))).toEqual([
    { ...common, status: 'succeeded', responseStatus: 200, durationMs: 1.234, address: '2001:db8::1', retryMs: null },
    { ...common, status: 'failed', error: 'timeout', durationMs: null, address: null, retryMs: 5_000 },
  ])
})

test('and none at a level that leaves it out', () => {
  expect(linesFor(false, { status: 'succeeded', error: null })).toEqual([])
})
