import { randomUUID } from 'node:crypto'
import { channel } from 'node:diagnostics_channel'
import { DiagLogLevel, diag, trace } from '@opentelemetry/api'
import type { Logger } from 'pino'
import { turnTracingOff, turnTracingOn } from '../kernel/tracing.ts'

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
