import type { Logger } from 'pino'
import { attemptIdOf } from '../kernel/ids.ts'
import type { FlowObserver } from './dispatching/flow.ts'
import type { Lane } from './dispatching/lane.ts'
import type { Attempted } from './dispatching/sending.ts'

/** One line an attempt. Never the URL's query, a header or a body: any of them may hold a secret of the receiver's. */
export function createAttemptLog(log: Logger): Pick<FlowObserver, 'attempted'> {
  // What is the same in all lines of a lane is written out once.
  const logs = new WeakMap<Lane, Logger>()

  function logOf(lane: Lane): Logger {
    const known = logs.get(lane)
    if (known !== undefined) return known
    const { orgId, webhookId } = lane.leased
    const made = log.child({ orgId, webhookId })
    logs.set(lane, made)
    return made
  }

  return {
    attempted({ lane, delivery, begun, exchange, retryMs }: Attempted) {
      logOf(lane).info(
        {
          eventId: delivery.eventId,
          type: delivery.eventType,
          attempt: begun.attempt,
          // As lists of deliveries have it.
          deliveryId: attemptIdOf(begun.attemptId),
          status: exchange.status,
          responseStatus: exchange.response?.status,
          error: exchange.error?.code,
          durationMs: exchange.durationUs === null ? null : exchange.durationUs / 1_000,
          address: exchange.address,
          retryMs,
        },
        'delivery.attempted',
      )
    },
  }
}
