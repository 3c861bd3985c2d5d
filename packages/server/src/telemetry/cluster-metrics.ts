import type { Registry } from 'prom-client'
import type { Database } from '../db/database.ts'
import { addGauge, type Samples } from './process-gauges.ts'

/** Where counting stops: a scrape must not read millions of waiting deliveries. */
const countedMax = { lanes: 10_000, deliveries: 100_000, wakes: 1_000, unseen: 10_000 }
/** A lane is late when its oldest delivery has waited for so long for its first attempt. */
const lateSeconds = 60

export type ClusterMetrics = {
  /** Deliveries whose first attempt has not begun, and how many of them the lane with the most has. */
  waiting: number
  lane_waiting_max: number
  retries: number
  in_flight: number
  /** Zero if nothing waits. */
  oldest_waiting_seconds: number
  lanes_late: number
  /** Lanes with something to do. */
  lanes: Record<'leased' | 'due' | 'later' | 'paused' | 'suspended', number>
  /** Webhooks that are not delivered to as they should be. Paused ones do not count. */
  webhooks: Record<'failing' | 'suspended', number>
  /** How long ago a dispatcher should have looked at the lane that is due the longest. */
  lane_overdue_seconds: number
  /** Published and not yet seen by any dispatcher. */
  wakes: number
  wakes_oldest_seconds: number
  databases: Record<string, number>
  nodes: Record<'alive' | 'silent' | 'stopped', number>
}

/**
 * What an operator wants to know of the whole installation, in one statement whose cost does not grow with what is waiting.
 *
 * Lanes with work are found by the partial index `lanes_due`, those that are due the longest first, and up to 10,000 of them. Each
 * costs two look-ups, of its first waiting delivery and of that event. Waiting deliveries are counted from each lane's cursor in the
 * index `deliveries_lane`, until 100,000 were counted for all lanes together. Events that no dispatcher has seen are not in their
 * lanes yet, so they are found by up to 1,000 wakes; there are many only while no dispatcher runs.
 *
 * On two cores that were busy with other work (load 20): 20 ms with nothing waiting, 55 ms with a million deliveries in one lane, and
 * 0.45 s with a million in 10,000 lanes, which is the most that it looks at.
 */
export const readClusterMetrics = async (
  db: Database,
  { deadAfterSeconds }: { deadAfterSeconds: number },
): Promise<ClusterMetrics> => {
  const [row] = await db<ClusterMetrics[]>`
    with lane as materialized (
      select l.id, l.org_id, l.cursor_seq, l.due_at, case
        when l.paused_until > now() then 'paused'
        when l.suspended_until > now() then 'suspended'
        when l.due_at <= now() then 'due'
        when l.lease_owner is not null then 'leased'
        else 'later'
      end as state
      from keyhook.lanes l
      where l.due_at is not null and l.ended_at is null
      order by l.due_at limit ${countedMax.lanes}
    ), wake as materialized (
      select w.org_id, w.first_seq, w.last_seq from keyhook.wakes w
      order by w.org_id, w.first_seq limit ${countedMax.wakes}
    ), unseen as materialized (
      select d.lane_id, w.org_id, d.event_seq from wake w
      cross join lateral (
        select d.lane_id, d.event_seq from keyhook.deliveries d
        where d.org_id = w.org_id and d.event_seq >= w.first_seq and d.event_seq <= w.last_seq offset 0
      ) d
      -- Of a lane with other work, these are counted from its cursor.
      cross join lateral (
        select from keyhook.lanes l
        where l.id = d.lane_id and l.due_at is null and l.ended_at is null and l.cursor_seq < d.event_seq offset 0
      ) l
      limit ${countedMax.unseen}
    ), counted as materialized (
      select id, count(*)::int as deliveries from (
        select l.id from lane l cross join lateral (
          select from keyhook.deliveries d where d.lane_id = l.id and d.event_seq > l.cursor_seq offset 0
        ) d
        union all select lane_id from unseen
        limit ${countedMax.deliveries}
      ) w group by id
    ), oldest as materialized (
      select e.created_at from (
        select l.org_id, d.event_seq from lane l cross join lateral (
          select d.event_seq from keyhook.deliveries d where d.lane_id = l.id and d.event_seq > l.cursor_seq
          order by d.event_seq limit 1
        ) d
        where l.state not in ('paused', 'suspended')
        union all select org_id, min(event_seq) from unseen group by lane_id, org_id
      ) f
      cross join lateral (
        select e.created_at from keyhook.events e where e.org_id = f.org_id and e.seq = f.event_seq offset 0
      ) e
    )
    select
      (select coalesce(sum(deliveries), 0)::int from counted) as waiting,
      (select coalesce(max(deliveries), 0)::int from counted) as lane_waiting_max,
      (select count(*)::int from (select from keyhook.retries limit ${countedMax.deliveries}) r) as retries,
      (select count(*)::int from (select from keyhook.in_flight limit ${countedMax.deliveries}) f) as in_flight,
      (select greatest(0, extract(epoch from now() - min(created_at)))::float8 from oldest) as oldest_waiting_seconds,
      (select count(*)::int from oldest where created_at < now() - make_interval(secs => ${lateSeconds})) as lanes_late,
      (
        select jsonb_build_object(
          'leased', count(*) filter (where state = 'leased'), 'due', count(*) filter (where state = 'due'),
          'later', count(*) filter (where state = 'later'), 'paused', count(*) filter (where state = 'paused'),
          'suspended', count(*) filter (where state = 'suspended')
        ) from lane
      ) as lanes,
      (
        select jsonb_build_object(
          'failing', count(*) filter (where not f.suspended), 'suspended', count(*) filter (where f.suspended)
        ) from (
          select (l.suspended_until > now()) is true as suspended from keyhook.lanes l
          where l.failing_since is not null and l.ended_at is null and (l.paused_until > now()) is not true
          limit ${countedMax.lanes}
        ) f
      ) as webhooks,
      (
        select coalesce(max(greatest(0, extract(epoch from now() - due_at))), 0)::float8 from lane where state = 'due'
      ) as lane_overdue_seconds,
      (select count(*)::int from wake) as wakes,
      (
        select coalesce(max(greatest(0, extract(epoch from now() - e.created_at))), 0)::float8
        from wake w cross join lateral (
          select e.created_at from keyhook.events e where e.org_id = w.org_id and e.seq = w.first_seq offset 0
        ) e
      ) as wakes_oldest_seconds,
      (
        select coalesce(jsonb_object_agg(status, databases), '{}') from (
          select status, count(*) as databases from keyhook.databases where status <> 'deleted' group by status
        ) d
      ) as databases,
      (
        select jsonb_build_object(
          'alive', count(*) filter (where not silent), 'silent', count(*) filter (where silent and databases_max > 0),
          'stopped', count(*) filter (where silent and databases_max = 0)
        ) from (
          select databases_max, seen_at < clock_timestamp() - make_interval(secs => ${deadAfterSeconds}) as silent
          from keyhook.nodes where state <> 'forgotten'
        ) n
      ) as nodes`
  return row!
}

/** What all processes of an installation read alike. */
export type ClusterReading = ClusterMetrics & {
  jobs: readonly { queue: string; state: string; jobs: number; due_seconds: number }[]
}

type ReadSamples = (reading: ClusterReading) => Samples

const one =
  (of: (reading: ClusterReading) => number): ReadSamples =>
  (reading) => [[{}, of(reading)]]
const by = (label: string, of: (reading: ClusterReading) => Record<string, number>): ReadSamples => {
  return (reading) => Object.entries(of(reading)).map(([name, count]) => [{ [label]: name }, count])
}

/** Every process answers the same, so these names have a prefix of their own: take their maximum, not their sum. */
const gauges: readonly { name: string; help: string; labelNames?: string[]; samples: ReadSamples }[] = [
  {
    name: 'deliveries_waiting',
    help: 'Number of unfinished deliveries: before their first attempt (first), in_flight, or waiting for a retry. Counting stops at 100,000.',
    labelNames: ['kind'],
    samples: by('kind', ({ waiting, in_flight, retries }) => ({ first: waiting, in_flight, retry: retries })),
  },
  {
    name: 'deliveries_oldest_waiting_seconds',
    help: 'Age of the oldest event with a delivery whose first attempt has not begun; 0 if there is none. Paused and suspended webhooks do not count.',
    samples: one((reading) => reading.oldest_waiting_seconds),
  },
  {
    name: 'webhooks',
    help: 'Number of webhooks that are failing (three failed attempts in a row, and no success since) or suspended. Paused ones do not count. Counting stops at 10,000.',
    labelNames: ['state'],
    samples: by('state', ({ webhooks }) => webhooks),
  },
  {
    name: 'lane_waiting_max',
    help: 'Number of deliveries before their first attempt in the lane that has the most of them.',
    samples: one((reading) => reading.lane_waiting_max),
  },
  {
    name: 'lanes',
    help: 'Number of lanes with work: leased by a dispatcher, due, later (retries), paused or suspended. Counting stops at 10,000.',
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
  const help = "1 if Keyhook's PostgreSQL has answered this process within three seconds, otherwise 0."
  addGauge(registry, { name: 'keyhook_postgres_up', help }, async () => [[{}, (await latest()) === null ? 0 : 1]])
  for (const { name, samples, ...about } of gauges) {
    addGauge(registry, { name: `keyhook_cluster_${name}`, ...about }, async () => {
      const reading = await latest()
      return reading === null ? [] : samples(reading)
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
