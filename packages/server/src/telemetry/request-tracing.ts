import { type Context, context, propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { tracer } from '../kernel/tracing.ts'

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
