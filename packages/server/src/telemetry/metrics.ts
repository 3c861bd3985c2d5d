import { Counter, collectDefaultMetrics, Gauge, Histogram as LibraryHistogram, Registry } from 'prom-client'
import { jobKinds } from '../domain/platform-job.ts'
import type { StorageReport } from '../domain/storage.ts'
import type { Answered } from '../http/request-log.ts'
import type { DispatchObserver } from '../webhooks/engine/types.ts'
import { type ClusterReading, createClusterGauges } from './cluster-gauges.ts'
import { createHistogram } from './histogram.ts'
import { createProcessGauges } from './process-gauges.ts'
import { createTally } from './tally.ts'

const jobLabels = (kind: string, outcome: string): string => `kind="${kind}",outcome="${outcome}"`

/** Metrics for operators (docs/monitoring.md). No label has an organization or webhook id: their number is unbounded. */
export function createMetrics() {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const registers = [registry]
  const attempts = createTally(registry, {
    name: 'keyhook_delivery_attempts_total',
    help: 'Delivery attempts by outcome; for failures with the error code.',
    labelNames: ['status', 'error'],
    initial: ['failed timeout', 'failed connect_timeout', 'failed tls_timeout'],
  })
  const finished = createTally(registry, {
    name: 'keyhook_deliveries_finished_total',
    help: 'Finished deliveries: delivered, or given up.',
    labelNames: ['outcome'],
    initial: ['delivered', 'given_up'],
  })
  const responses = createTally(registry, {
    name: 'keyhook_http_responses_total',
    help: 'Responses of the API by status.',
    labelNames: ['status'],
  })
  const failedJobs = createTally(registry, {
    name: 'keyhook_jobs_failed_total',
    help: 'Jobs that were given up after their last attempt.',
    labelNames: ['kind'],
    initial: [...jobKinds],
  })
  const requests = createHistogram({
    name: 'keyhook_http_request_duration_seconds',
    help: 'From the arrival of a request to its answer; for a list or stream, to the start of it.',
    buckets: [0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1, 2.5, 10],
  })
  const lag = createHistogram({
    name: 'keyhook_delivery_lag_seconds',
    help: 'From the publishing of an event to the start of its first attempt.',
    buckets: [
      0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 120, 600, 1200, 1800, 2400, 3000, 3600,
    ],
    initial: [''],
  })
  const duration = createHistogram({
    name: 'keyhook_delivery_duration_seconds',
    help: 'How long attempts took, by outcome.',
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60],
  })
  const jobs = createHistogram({
    name: 'keyhook_job_duration_seconds',
    help: 'How long attempts of jobs took, by kind and outcome.',
    buckets: [0.1, 0.5, 1, 5, 15, 60, 300, 1800, 7200],
    initial: jobKinds.flatMap((kind) => [jobLabels(kind, 'succeeded'), jobLabels(kind, 'failed')]),
  })
  const histograms = [requests, lag, duration, jobs]
  const groups = new LibraryHistogram({
    name: 'keyhook_delivery_group_size',
    help: 'Attempts that one statement started or settled.',
    labelNames: ['kind'],
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256],
    registers,
  })
  const fenced = new Counter({
    name: 'keyhook_delivery_settles_refused_total',
    help: 'Outcomes that were not recorded because the lease had passed to another dispatcher.',
    registers,
  })

  const observer: DispatchObserver = {
    attempted({ delivery, attempt, exchange, retryMs }) {
      attempts(exchange.status, exchange.error?.code ?? '')
      if (exchange.durationUs !== null) duration.observe(exchange.durationUs / 1e6, `status="${exchange.status}"`)
      if (attempt.attempt === 1) lag.observe(Math.max(0, attempt.startedAtMs - delivery.publishedAtMs) / 1_000)
      if (retryMs === null) finished(exchange.status === 'succeeded' ? 'delivered' : 'given_up')
    },
    batch(kind, size, ours) {
      groups.observe({ kind }, size)
      if (kind === 'settle' && ours < size) fenced.inc(size - ours)
    },
  }

  const gauge = (name: string, help: string, read: () => number) =>
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read())
      },
    })
  const archivedUntil = new Map<string, number>()
  gauge(
    'keyhook_wal_archive_lag_seconds',
    'The age of the newest state that every database of this node can be restored to; 0 without any.',
    () => (archivedUntil.size === 0 ? 0 : Math.max(0, Date.now() - Math.min(...archivedUntil.values())) / 1_000),
  )

  return {
    contentType: registry.contentType,
    async text(): Promise<string> {
      return `${await registry.metrics()}\n${histograms.map((one) => one.text()).join('\n')}`
    },
    observer,
    /** After each attempt to archive the log of a database. Null: it is not on this node any more. */
    walArchived(databaseId: string, until: Date | null) {
      if (until === null) archivedUntil.delete(databaseId)
      else archivedUntil.set(databaseId, until.getTime())
    },
    answered({ method, route, status, seconds }: Answered) {
      responses(String(status))
      const of = route === null ? 'method="other",route="none"' : `method="${method}",route="${route}"`
      requests.observe(seconds, `${of},status="${Math.floor(status / 100)}xx"`)
    },
    /** After each attempt of a job. */
    jobAttempted: (kind: string, outcome: 'succeeded' | 'failed', seconds: number) =>
      jobs.observe(seconds, jobLabels(kind, outcome)),
    /** After the last attempt of a job that did not succeed. */
    jobFailed: (kind: string) => failedJobs(kind),
    ...createProcessGauges(registry),
    /** What is the same for all processes of the installation, from its database. */
    watchCluster: (read: () => Promise<ClusterReading>) => createClusterGauges(registry, read),
    /** The disk with the databases of this node, and what they use of it. */
    watchStorage(read: () => StorageReport) {
      const disk = (name: string, help: string, of: (disk: NonNullable<StorageReport['disk']>) => number) =>
        gauge(`keyhook_disk_${name}`, help, () => {
          const { disk } = read()
          return disk === null ? Number.NaN : of(disk)
        })
      disk('free_bytes', 'Free space of the disk with the databases.', ({ freeBytes }) => freeBytes)
      disk('size_bytes', 'Size of that disk.', ({ sizeBytes }) => sizeBytes)
      disk('free_files', 'Free inodes of that disk.', ({ freeFiles }) => freeFiles)
      disk('floor_bytes', 'Free space below which no database may grow.', ({ floorBytes }) => floorBytes)
      disk('reserve_bytes', "Space that is kept for Keyhook's own PostgreSQL.", ({ reserveBytes }) => reserveBytes)
      gauge('keyhook_databases_storage_bytes', 'Disk that all databases of this node use.', () => read().usedBytes)
      new Gauge({
        name: 'keyhook_databases',
        help: 'Databases of this node by the state of their storage.',
        labelNames: ['storage'],
        registers,
        collect() {
          for (const [state, count] of Object.entries(read().states)) this.set({ storage: state }, count)
        },
      })
    },
    /** Gauges are read from the engine when metrics are collected. */
    watch(engine: { readonly lanes: number; readonly inFlight: number }) {
      gauge('keyhook_delivery_lanes', 'Webhooks whose deliveries this process is working on.', () => engine.lanes)
      gauge('keyhook_delivery_in_flight', 'Requests to receivers that are in flight.', () => engine.inFlight)
    },
  }
}
export type Metrics = ReturnType<typeof createMetrics>
