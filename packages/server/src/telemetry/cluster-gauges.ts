import { Gauge, type Registry } from 'prom-client'
import type { ClusterFigures } from '../store/cluster-figures.ts'

/** What all processes of an installation read alike. */
export type ClusterReading = ClusterFigures & {
  jobs: readonly { queue: string; state: string; jobs: number; due_seconds: number }[]
}

type Samples = (reading: ClusterReading) => readonly (readonly [labels: Record<string, string>, value: number])[]

const one =
  (of: (reading: ClusterReading) => number): Samples =>
  (reading) => [[{}, of(reading)]]
const by = (label: string, of: (reading: ClusterReading) => Record<string, number>): Samples => {
  return (reading) => Object.entries(of(reading)).map(([name, count]) => [{ [label]: name }, count])
}

/** Every process answers the same, so these names have a prefix of their own: take their maximum, not their sum. */
const gauges: readonly { name: string; help: string; labelNames?: string[]; samples: Samples }[] = [
  {
    name: 'deliveries_waiting',
    help: 'Number of unfinished deliveries: before their first attempt (first), in_flight, or waiting for a retry. Counting stops at 100,000.',
    labelNames: ['kind'],
    samples: by('kind', ({ waiting, in_flight, retries }) => ({ first: waiting, in_flight, retry: retries })),
  },
  {
    name: 'deliveries_oldest_waiting_seconds',
    help: 'Age of the oldest event with a delivery whose first attempt has not begun; 0 if there is none. Paused webhooks do not count.',
    samples: one((reading) => reading.oldest_waiting_seconds),
  },
  {
    name: 'lane_waiting_max',
    help: 'Number of deliveries before their first attempt in the lane that has the most of them.',
    samples: one((reading) => reading.lane_waiting_max),
  },
  {
    name: 'lanes',
    help: 'Number of lanes with work: leased by a dispatcher, due, later (retries), or paused. Counting stops at 10,000.',
    labelNames: ['state'],
    samples: by('state', ({ lanes }) => lanes),
  },
  {
    name: 'lanes_late',
    help: 'Number of lanes whose oldest delivery has waited for its first attempt for more than a minute.',
    samples: one((reading) => reading.lanes_late),
  },
  {
    name: 'lane_overdue_seconds',
    help: 'Time that the most overdue lane has waited for a dispatcher.',
    samples: one((reading) => reading.lane_overdue_seconds),
  },
  {
    name: 'wakes',
    help: 'Number of publishing transactions that no dispatcher has seen yet. Counting stops at 1,000.',
    samples: one((reading) => reading.wakes),
  },
  {
    name: 'wakes_oldest_seconds',
    help: 'Age of the oldest publishing transaction that no dispatcher has seen yet.',
    samples: one((reading) => reading.wakes_oldest_seconds),
  },
  {
    name: 'jobs',
    help: 'Number of uncompleted jobs by queue (node, any-node, invoicing, or one of them with -dead-letter) and state. The queues of all nodes count as one.',
    labelNames: ['queue', 'state'],
    samples: ({ jobs }) => jobs.map(({ queue, state, jobs: count }) => [{ queue, state }, count]),
  },
  {
    name: 'jobs_oldest_due_seconds',
    help: 'Time that the most overdue job has waited for a worker.',
    samples: one(({ jobs }) => Math.max(0, ...jobs.map((job) => job.due_seconds))),
  },
  {
    name: 'databases',
    help: 'Number of databases by status, without deleted ones.',
    labelNames: ['status'],
    samples: by('status', ({ databases }) => databases),
  },
  {
    name: 'nodes',
    help: 'Number of nodes with databases: alive, silent (no heartbeat for five seconds), or stopped. Nodes that were given up do not count.',
    labelNames: ['state'],
    samples: by('state', ({ nodes }) => nodes),
  },
]

/** For so long a reading is used again: many scrapers, or somebody who reloads the page, must not load the database. */
const keptMs = 10_000
/** Prometheus gives up after ten seconds; the other metrics are worth having while PostgreSQL does not answer. */
const readMsMax = 3_000

/** Gauges from the database of the installation. Without an answer in time they have no samples, and `keyhook_postgres_up` is 0. */
export function createClusterGauges(registry: Registry, read: () => Promise<ClusterReading>): void {
  const latest = createReading(read)
  new Gauge({
    name: 'keyhook_postgres_up',
    help: "1 if Keyhook's PostgreSQL has answered this process within three seconds, otherwise 0.",
    registers: [registry],
    async collect() {
      this.set((await latest()) === null ? 0 : 1)
    },
  })
  for (const { name, help, labelNames = [], samples } of gauges) {
    new Gauge({
      name: `keyhook_cluster_${name}`,
      help,
      labelNames,
      registers: [registry],
      async collect() {
        const reading = await latest()
        // Also removes what is no more, such as a state without jobs.
        this.reset()
        if (reading === null && labelNames.length === 0) this.remove()
        if (reading !== null) for (const [labels, value] of samples(reading)) this.set(labels, value)
      },
    })
  }
}

/** One statement at a time, whoever asks. A reading that takes too long is not waited for; the next scrape gets it. */
function createReading(read: () => Promise<ClusterReading>): () => Promise<ClusterReading | null> {
  let running: Promise<ClusterReading | null> | undefined
  let startedMs = Number.NEGATIVE_INFINITY
  let isRunning = false

  return async () => {
    if (!isRunning && performance.now() - startedMs > keptMs) {
      startedMs = performance.now()
      isRunning = true
      running = read()
        .catch(() => null)
        .finally(() => {
          isRunning = false
        })
    }
    const timeout = Promise.withResolvers<null>()
    const timer = setTimeout(timeout.resolve, Math.max(0, startedMs + readMsMax - performance.now()), null)
    return Promise.race([running!, timeout.promise]).finally(() => clearTimeout(timer))
  }
}
