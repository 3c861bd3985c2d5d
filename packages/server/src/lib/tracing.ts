import {
  type Attributes,
  type Context,
  context,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace,
} from '@opentelemetry/api'

/*
 * Traces by the API of OpenTelemetry. The SDK behind it is loaded only where traces are exported (`telemetry/tracing.ts`); elsewhere
 * nothing here does more than look at one boolean.
 */

let isOn = false
export const turnTracingOn = (): void => {
  isOn = true
}
export const turnTracingOff = (): void => {
  isOn = false
}
export const isTracing = (): boolean => isOn

export const tracer = trace.getTracer('keyhook')

/** Where a span belongs: a `traceparent` of W3C Trace Context, version 00. */
type Traceparent = string

const shape = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/

/** Of what is running here; null without a trace, or with one that is not exported. */
export function activeTraceparent(): Traceparent | null {
  if (!isOn) return null
  const span = trace.getActiveSpan()?.spanContext()
  if (span === undefined || (span.traceFlags & TraceFlags.SAMPLED) === 0) return null
  return `00-${span.traceId}-${span.spanId}-01`
}

/** Spans that start in it are children of the span that is named, which may be in another process. */
export function contextOf(traceparent: Traceparent | null | undefined): Context {
  const [, traceId, spanId, flags] = shape.exec(traceparent ?? '') ?? []
  if (traceId === undefined) return ROOT_CONTEXT
  const span = { traceId, spanId: spanId!, traceFlags: Number.parseInt(flags!, 16), isRemote: true }
  return trace.setSpanContext(ROOT_CONTEXT, span)
}

/** `parent`: of another process; without it, the span that is active here. */
type SpanOptions = { kind?: 'producer' | 'consumer'; parent?: Traceparent | undefined; attributes?: Attributes }

/** Runs work in a span of its own. No attribute may hold a secret, a body or a URL. */
export function inSpan<T>(name: string, { kind, parent, attributes = {} }: SpanOptions, work: () => Promise<T>) {
  if (!isOn) return work()
  const spanKind = kind === 'producer' ? SpanKind.PRODUCER : kind === 'consumer' ? SpanKind.CONSUMER : SpanKind.INTERNAL
  const from = kind === 'consumer' ? contextOf(parent) : context.active()
  return tracer.startActiveSpan(name, { kind: spanKind, attributes }, from, async (span) => {
    try {
      return await work()
    } catch (error) {
      // Its class and not its message, which may quote a value.
      span.setStatus({ code: SpanStatusCode.ERROR, message: error instanceof Error ? error.name : 'error' })
      throw error
    } finally {
      span.end()
    }
  })
}
