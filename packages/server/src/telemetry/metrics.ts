import { Counter, collectDefaultMetrics, Histogram as LibraryHistogram, Registry } from 'prom-client'
import type { StorageReport } from '../databases/storage-rules.ts'
import type { DispatchObserver } from '../delivery/dispatcher/work.ts'
import type { Answered } from '../http/app.ts'
import { jobKinds } from '../jobs/queue.ts'
import type { MailOutcome } from '../mail/sender.ts'
import { type ClusterReading, createClusterGauges } from './cluster-metrics.ts'
import { addGauge, createProcessGauges } from './process-gauges.ts'

type Disk = NonNullable<StorageReport['disk']>

const jobLabels = (kind: string, outcome: string): string => `kind="${kind}",outcome="${outcome}"`

/** Metrics for operators (docs/monitoring.md). No label has an organization or webhook id: their number is unbounded. */
export function createMetrics() {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const registers = [registry]
  const attempts = createTally(registry, {
    name: 'keyhook_delivery_attempts_total',
    help: 'Counts delivery attempts by outcome: succeeded, failed with an error code, or interrupted.',
    labelNames: ['status', 'error'],
    initial: ['failed timeout', 'failed connect_timeout', 'failed tls_timeout'],
  })
  const finished = createTally(registry, {
    name: 'keyhook_deliveries_finished_total',
    help: 'Counts deliveries that ended: delivered, or given_up after the last retry.',
    labelNames: ['outcome'],
    initial: ['delivered', 'given_up'],
  })
  const responses = createTally(registry, {
    name: 'keyhook_http_responses_total',
    help: 'Counts responses of the API by their exact status.',
    labelNames: ['status'],
  })
  const failedJobs = createTally(registry, {
    name: 'keyhook_jobs_failed_total',
    help: 'Counts jobs that were given up after their last attempt.',
    labelNames: ['kind'],
    initial: [...jobKinds],
  })
  const mails = createTally(registry, {
    name: 'keyhook_mails_total',
    help: 'Counts mails by outcome: sent, failed (an attempt, which is repeated), given_up, or left_out because nothing was to be sent any more.',
    labelNames: ['outcome'],
    initial: ['sent', 'failed', 'given_up', 'left_out'],
  })
  const requests = createHistogram({
    name: 'keyhook_http_request_duration_seconds',
    help: 'Time from the arrival of a request to its response, by route pattern (none without a route) and status class, such as 2xx. Lists and streams count until their first byte; probes, /metrics and files of the console are left out.',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1, 2.5, 10],
  })
  const lag = createHistogram({
    name: 'keyhook_delivery_lag_seconds',
    help: 'Time from the publishing of an event to the start of the first attempt of a delivery.',
    labelNames: [],
    buckets: [
      0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 120, 600, 1200, 1800, 2400, 3000, 3600,
    ],
    initial: [''],
  })
  const duration = createHistogram({
    name: 'keyhook_delivery_duration_seconds',
    help: 'Duration of delivery attempts by outcome.',
    labelNames: ['status'],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60],
  })
  const jobs = createHistogram({
    name: 'keyhook_job_duration_seconds',
    help: 'Duration of job attempts by kind, such as backup.take, and outcome (succeeded or failed).',
    labelNames: ['kind', 'outcome'],
    buckets: [0.1, 0.5, 1, 5, 15, 60, 300, 1800, 7200],
    initial: jobKinds.flatMap((kind) => [jobLabels(kind, 'succeeded'), jobLabels(kind, 'failed')]),
  })
  const histograms = [requests, lag, duration, jobs]
  const groups = new LibraryHistogram({
    name: 'keyhook_delivery_group_size',
    help: 'Number of attempts that one SQL statement began or settled.',
    labelNames: ['kind'],
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256],
    registers,
  })
  const fenced = new Counter({
    name: 'keyhook_delivery_settles_refused_total',
    help: 'Counts outcomes that were not recorded because another dispatcher had taken the lane. These deliveries are sent again.',
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
    addGauge(registry, { name, help }, () => [[{}, read()]])
  const archivedUntil = new Map<string, number>()
  gauge(
    'keyhook_wal_archive_lag_seconds',
    'Age of the newest state that every database of this node can be restored to; 0 without databases.',
    () => (archivedUntil.size === 0 ? 0 : Math.max(0, Date.now() - Math.min(...archivedUntil.values())) / 1_000),
  )

  return {
    contentType: registry.contentType,
    async text(): Promise<string> {
      return `${await registry.metrics()}\n${histograms.map((one) => one.text()).join('\n')}`
    },
    describe() {
      const own = histograms.map(({ about }) => ({ ...about, type: 'histogram' as const }))
      return [...registry.getMetricsAsArray(), ...own].map((metric) => ({
        name: metric.name,
        type: String(metric.type),
        labels: 'labelNames' in metric ? (metric.labelNames as readonly string[]) : [],
        help: metric.help,
      }))
    },
    observer,
    /** After each attempt to archive the WAL of a database. Null: it is not on this node any more. */
    walArchived(databaseId: string, until: Date | null) {
      if (until === null) archivedUntil.delete(databaseId)
      else archivedUntil.set(databaseId, until.getTime())
    },
    answered({ method, route, status, seconds }: Answered) {
      responses(String(status))
      const of = route === null ? 'method="other",route="none"' : `method="${method}",route="${route}"`
      requests.observe(seconds, `${of},status="${Math.floor(status / 100)}xx"`)
    },
    jobAttempted: (kind: string, outcome: 'succeeded' | 'failed', seconds: number) =>
      jobs.observe(seconds, jobLabels(kind, outcome)),
    /** After the last attempt of a job that did not succeed. */
    jobFailed: (kind: string) => failedJobs(kind),
    mailed: (outcome: MailOutcome) => mails(outcome),
    ...createProcessGauges(registry),
    /** What is the same for all processes of the installation, from its database. */
    watchCluster: (read: () => Promise<ClusterReading>) => createClusterGauges(registry, read),
    /** The disk with the databases of this node, and what they use of it. */
    watchStorage(read: () => StorageReport) {
      const ofDisk = (name: string, help: string, field: Exclude<keyof Disk, 'level'>) =>
        gauge(`keyhook_disk_${name}`, help, () => read().disk?.[field] ?? Number.NaN)
      ofDisk('free_bytes', 'Free space of the disk that has the databases of this node.', 'freeBytes')
      ofDisk('size_bytes', 'Size of the disk that has the databases of this node.', 'sizeBytes')
      ofDisk('free_files', 'Free inodes of the disk that has the databases of this node.', 'freeFiles')
      ofDisk('floor_bytes', 'Free disk space below which no database of this node may grow.', 'floorBytes')
      ofDisk('reserve_bytes', "Disk space that is reserved for Keyhook's own PostgreSQL.", 'reserveBytes')
      gauge(
        'keyhook_databases_storage_bytes',
        'Disk space that all databases of this node use.',
        () => read().usedBytes,
      )
      const help = 'Number of databases of this node by the state of their storage: normal, read_only or stopped.'
      addGauge(registry, { name: 'keyhook_databases', help, labelNames: ['storage'] }, () =>
        Object.entries(read().states).map(([storage, count]) => [{ storage }, count]),
      )
    },
    /** Gauges are read from the engine when metrics are collected. */
    watch(engine: { readonly lanes: number; readonly inFlight: number }) {
      gauge(
        'keyhook_delivery_lanes',
        'Number of lanes (webhook queues) that this dispatcher holds.',
        () => engine.lanes,
      )
      gauge(
        'keyhook_delivery_in_flight',
        'Number of requests to receivers that this dispatcher has in flight.',
        () => engine.inFlight,
      )
    },
  }
}
export type Metrics = ReturnType<typeof createMetrics>

/** `labels` in the form of the exposition format, such as `method="GET",status="2xx"`: from a fixed set, so nothing is escaped. */
export type Histogram = {
  about: { name: string; help: string; labelNames: readonly string[] }
  observe(seconds: number, labels?: string): void
  text(): string
}

type Series = { counts: number[]; sum: number }

/**
 * A histogram that is cheap to observe. prom-client's takes 1.3 µs without labels and 4.8 µs with three, for every request; this
 * one 0.1 µs. Buckets are added up when the text is made. `initial`: labels that are shown as 0 from the start.
 */
export function createHistogram(about: {
  name: string
  help: string
  labelNames: readonly string[]
  buckets: readonly number[]
  initial?: readonly string[]
}): Histogram {
  const { name, help, buckets, initial = [] } = about
  const series = new Map<string, Series>()

  function add(labels: string): Series {
    const added = { counts: new Array<number>(buckets.length + 1).fill(0), sum: 0 }
    series.set(labels, added)
    return added
  }

  function linesOf(labels: string, { counts, sum }: Series): string[] {
    const before = labels === '' ? '' : `${labels},`
    const own = labels === '' ? '' : `{${labels}}`
    let total = 0
    const lines = counts.map((count, i) => {
      total += count
      return `${name}_bucket{${before}le="${buckets[i] ?? '+Inf'}"} ${total}`
    })
    return [...lines, `${name}_sum${own} ${sum}`, `${name}_count${own} ${total}`]
  }

  for (const labels of initial) add(labels)
  return {
    about,
    observe(value, labels = '') {
      const one = series.get(labels) ?? add(labels)
      let i = 0
      while (i < buckets.length && value > buckets[i]!) i++
      one.counts[i]! += 1
      one.sum += value
    },
    text() {
      const lines = [...series].flatMap(([labels, one]) => linesOf(labels, one))
      return [`# HELP ${name} ${help}`, `# TYPE ${name} histogram`, ...lines, ''].join('\n')
    },
  }
}

/**
 * A counter with labels that is cheap to increment: values are counted in a Map by one string, and copied into the Counter when
 * metrics are collected. `initial`: what is shown as 0 from the start, because Prometheus sees no increase in a first value of 1.
 */
function createTally(
  registry: Registry,
  { name, help, labelNames, initial = [] }: { name: string; help: string; labelNames: string[]; initial?: string[] },
) {
  const counts = new Map<string, number>(initial.map((key) => [key, 0]))
  new Counter({
    name,
    help,
    labelNames,
    registers: [registry],
    collect() {
      this.reset()
      for (const [key, count] of counts) {
        const values = key.split(' ')
        this.inc(Object.fromEntries(labelNames.map((label, i) => [label, values[i]!])), count)
      }
    },
  })
  return (first: string, second?: string): void => {
    const key = second === undefined ? first : `${first} ${second}`
    counts.set(key, (counts.get(key) ?? 0) + 1)
  }
}
