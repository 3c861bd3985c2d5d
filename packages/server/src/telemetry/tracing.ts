import { randomUUID } from 'node:crypto'
import { channel } from 'node:diagnostics_channel'
import {
  type Context,
  context,
  DiagLogLevel,
  diag,
  propagation,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { Lane } from '../delivery/dispatcher/lane.ts'
import type { Attempted } from '../delivery/dispatcher/ports.ts'
import { attemptIdOf } from '../lib/ids.ts'
import { contextOf, isTracing, tracer, turnTracingOff, turnTracingOn } from '../lib/tracing.ts'

/**
 * Exports traces by OTLP over HTTP. The SDK is loaded here, and reads its standard variables itself: addresses, headers, sampler,
 * sizes of batches. Returns a function that sends what is left.
 */
export async function startTracing({ version, log }: { version: string; log: Logger }): Promise<() => Promise<void>> {
  const [{ OTLPTraceExporter }, { envDetector, detectResources, resourceFromAttributes }, sdk] = await Promise.all([
    import('@opentelemetry/exporter-trace-otlp-proto'),
    import('@opentelemetry/resources'),
    import('@opentelemetry/sdk-trace-node'),
  ])
  const report = (message: string) => log.warn({ why: message }, 'traces.not_exported')
  const ignore = () => {}
  diag.setLogger(
    { error: report, warn: report, info: ignore, debug: ignore, verbose: ignore },
    { logLevel: DiagLogLevel.WARN },
  )
  const own = { 'service.name': 'keyhook', 'service.version': version, 'service.instance.id': randomUUID() }
  const provider = new sdk.NodeTracerProvider({
    // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES replace ours.
    resource: resourceFromAttributes(own).merge(detectResources({ detectors: [envDetector] })),
    spanProcessors: [new sdk.BatchSpanProcessor(new OTLPTraceExporter())],
  })
  provider.register()
  const steps = channel('keyhook.platform.step')
  steps.subscribe(addStep)
  turnTracingOn()
  return async () => {
    turnTracingOff()
    steps.unsubscribe(addStep)
    await provider.shutdown().catch((error: unknown) => report(String(error)))
  }
}

/** Steps of a job are events of its span. */
const addStep = (step: unknown): void => void trace.getActiveSpan()?.addEvent((step as { name: string }).name)

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

/** A span for each request of a route, in the trace of the caller if it sends a `traceparent`. */
export function addRequestTracing(app: FastifyInstance): void {
  const contexts = new WeakMap<FastifyRequest, Context>()

  app.addHook('onRequest', (request, _reply, done) => {
    const { method, routeOptions } = request
    const parent = propagation.extract(ROOT_CONTEXT, request.headers)
    // The pattern and not the path, in which a token might be.
    const route = routeOptions.url ?? 'none'
    const attributes = { 'http.request.method': method, 'http.route': route, 'keyhook.request.id': request.id }
    const span = tracer.startSpan(`${method} ${route}`, { kind: SpanKind.SERVER, attributes }, parent)
    contexts.set(request, trace.setSpan(parent, span))
    done()
  })
  // The handler runs inside of `done`. Before the body was read, another tick of the socket would have lost the context.
  app.addHook('preHandler', (request, _reply, done) => {
    context.with(contexts.get(request) ?? ROOT_CONTEXT, done)
  })
  app.addHook('onResponse', (request, reply, done) => {
    const span = trace.getSpan(contexts.get(request) ?? ROOT_CONTEXT)
    span?.setAttribute('http.response.status_code', reply.statusCode)
    if (reply.statusCode >= 500) span?.setStatus({ code: SpanStatusCode.ERROR })
    span?.end()
    done()
  })
}
