import type { Logger } from 'pino'
import type { Attempted, FlowObserver } from './flow.ts'

/** One line an attempt. Never the URL's query, a header or a body: any of them may hold a secret of the receiver's. */
export const createAttemptLog = (log: Logger): Pick<FlowObserver, 'attempted'> => ({
  attempted({ lane, delivery, begun, exchange, retryMs }: Attempted) {
    log.info(
      {
        orgId: begun.orgId,
        webhookId: lane.leased.webhookId,
        eventId: delivery.eventId,
        type: delivery.eventType,
        attempt: begun.attempt,
        attemptId: begun.attemptId,
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
})
