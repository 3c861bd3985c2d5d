import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { FlowObserver } from './webhooks/dispatching/flow.ts'

/** What operators watch. No label names an organization or a webhook: their number has no bound. */
export function createMetrics() {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const registers = [registry]
  const attempts = new Counter({
    name: 'keyhook_delivery_attempts_total',
    help: 'Delivery attempts by outcome; for failures with the error code.',
    labelNames: ['status', 'error'],
    registers,
  })
  const finished = new Counter({
    name: 'keyhook_deliveries_finished_total',
    help: 'Deliveries that came to an end: delivered, or given up.',
    labelNames: ['outcome'],
    registers,
  })
  const lag = new Histogram({
    name: 'keyhook_delivery_lag_seconds',
    help: 'From the publishing of an event to the start of its first attempt.',
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 120],
    registers,
  })
  const duration = new Histogram({
    name: 'keyhook_delivery_duration_seconds',
    help: 'How long attempts took.',
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15],
    registers,
  })
  const groups = new Histogram({
    name: 'keyhook_delivery_group_size',
    help: 'How many attempts were begun or settled in one statement.',
    labelNames: ['kind'],
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256],
    registers,
  })
  const fenced = new Counter({
    name: 'keyhook_delivery_settles_refused_total',
    help: 'Outcomes that were not recorded because the lease had passed to somebody else.',
    registers,
  })

  /** Counted here and read when somebody asks: a counter with labels would cost every request more than this. */
  const responses = new Map<number, number>()
  new Counter({
    name: 'keyhook_http_responses_total',
    help: 'Answers of the operations of the API, and refusals, by status.',
    labelNames: ['status'],
    registers,
    collect() {
      this.reset()
      for (const [status, count] of responses) this.inc({ status }, count)
    },
  })

  const observer: FlowObserver = {
    attempted({ delivery, begun, exchange, retryMs }) {
      attempts.inc({ status: exchange.status, error: exchange.error?.code ?? '' })
      if (exchange.durationUs !== null) duration.observe(exchange.durationUs / 1e6)
      if (begun.attempt === 1) lag.observe(Math.max(0, begun.startedAtMs - delivery.publishedAtMs) / 1_000)
      if (retryMs === null) finished.inc({ outcome: exchange.status === 'succeeded' ? 'delivered' : 'given_up' })
    },
    grouped(kind, size, ours) {
      groups.observe({ kind }, size)
      if (kind === 'settle' && ours < size) fenced.inc(size - ours)
    },
  }

  return {
    registry,
    observer,
    answered(status: number): void {
      responses.set(status, (responses.get(status) ?? 0) + 1)
    },
    /** Gauges are read when somebody asks, from whoever knows. */
    watch(engine: { readonly lanes: number; readonly inFlight: number }) {
      const gauge = (name: string, help: string, read: () => number) =>
        new Gauge({
          name,
          help,
          registers,
          collect() {
            this.set(read())
          },
        })
      gauge('keyhook_delivery_lanes', 'Webhooks whose deliveries this process is working on.', () => engine.lanes)
      gauge('keyhook_delivery_in_flight', 'Requests to receivers that are in flight.', () => engine.inFlight)
    },
  }
}
export type Metrics = ReturnType<typeof createMetrics>
