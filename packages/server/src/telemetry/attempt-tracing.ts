import { SpanKind, SpanStatusCode } from '@opentelemetry/api'
import { attemptIdOf } from '../kernel/ids.ts'
import { contextOf, isTracing, tracer } from '../kernel/tracing.ts'
import type { Lane } from '../webhooks/engine/lane.ts'
import type { Attempted } from '../webhooks/engine/types.ts'

/** A span for an attempt that has ended, in the trace of what published its event. */
export function traceAttempt({ lane, delivery, attempt, exchange, retryMs }: Attempted): void {
  const { traceparent, eventType } = delivery
  if (traceparent === null || !isTracing()) return
  const { response, error, address } = exchange
  const host = hostOf(lane, attempt.version)
  const span = tracer.startSpan(
    `deliver ${eventType}`,
    {
      kind: SpanKind.CLIENT,
      startTime: attempt.startedAtMs,
      attributes: {
        'http.request.method': 'POST',
        ...(host !== null && { 'server.address': host }),
        ...(address !== null && { 'network.peer.address': address }),
        ...(response !== null && { 'http.response.status_code': response.status }),
        ...(error !== null && { 'error.type': error.code }),
        'keyhook.organization.id': lane.lease.orgId,
        'keyhook.webhook.id': lane.lease.webhookId,
        'keyhook.event.id': delivery.eventId,
        'keyhook.delivery.id': attemptIdOf(attempt.attemptId),
        'keyhook.delivery.attempt': attempt.attempt,
        'keyhook.delivery.finished': retryMs === null,
      },
    },
    contextOf(traceparent),
  )
  if (exchange.status !== 'succeeded') span.setStatus({ code: SpanStatusCode.ERROR, message: error?.code ?? '' })
  span.end()
}

/** The host only: path and query of a receiver's URL may hold a secret. Null if the settings have changed since the lease. */
const hostOf = ({ lease }: Lane, version: number): string | null =>
  lease.webhook === null || lease.version !== version ? null : new URL(lease.webhook.url).hostname
