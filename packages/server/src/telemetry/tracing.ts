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
import { tracer, turnTracingOff, turnTracingOn } from '../lib/tracing.ts'

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
