import type { Database } from '../db/database.ts'

/** Where counting stops: a scrape must not read millions of waiting deliveries. */
const figuresMax = { lanes: 10_000, deliveries: 100_000, wakes: 1_000, unseen: 10_000 }
/** A lane is late when its oldest delivery has waited for so long for its first attempt. */
const lateSeconds = 60

export type ClusterFigures = {
  /** Deliveries whose first attempt has not begun, and how many of them the lane with the most has. */
  waiting: number
  lane_waiting_max: number
  retries: number
  in_flight: number
  /** Zero if nothing waits. */
  oldest_waiting_seconds: number
  lanes_late: number
  /** Lanes with something to do. */
  lanes: Record<'leased' | 'due' | 'later' | 'paused', number>
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
export const readClusterFigures = async (
  db: Database,
  { deadAfterSeconds }: { deadAfterSeconds: number },
): Promise<ClusterFigures> => {
  const [row] = await db<ClusterFigures[]>`
    with lane as materialized (
      select l.id, l.org_id, l.cursor_seq, l.due_at, case
        when l.paused_until > now() then 'paused'
        when l.due_at <= now() then 'due'
        when l.lease_owner is not null then 'leased'
        else 'later'
      end as state
      from keyhook.lanes l
      where l.due_at is not null and l.ended_at is null
      order by l.due_at limit ${figuresMax.lanes}
    ), wake as materialized (
      select w.org_id, w.first_seq, w.last_seq from keyhook.wakes w
      order by w.org_id, w.first_seq limit ${figuresMax.wakes}
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
      limit ${figuresMax.unseen}
    ), counted as materialized (
      select id, count(*)::int as deliveries from (
        select l.id from lane l cross join lateral (
          select from keyhook.deliveries d where d.lane_id = l.id and d.event_seq > l.cursor_seq offset 0
        ) d
        union all select lane_id from unseen
        limit ${figuresMax.deliveries}
      ) w group by id
    ), oldest as materialized (
      select e.created_at from (
        select l.org_id, d.event_seq from lane l cross join lateral (
          select d.event_seq from keyhook.deliveries d where d.lane_id = l.id and d.event_seq > l.cursor_seq
          order by d.event_seq limit 1
        ) d
        where l.state <> 'paused'
        union all select org_id, min(event_seq) from unseen group by lane_id, org_id
      ) f
      cross join lateral (
        select e.created_at from keyhook.events e where e.org_id = f.org_id and e.seq = f.event_seq offset 0
      ) e
    )
    select
      (select coalesce(sum(deliveries), 0)::int from counted) as waiting,
      (select coalesce(max(deliveries), 0)::int from counted) as lane_waiting_max,
      (select count(*)::int from (select from keyhook.retries limit ${figuresMax.deliveries}) r) as retries,
      (select count(*)::int from (select from keyhook.in_flight limit ${figuresMax.deliveries}) f) as in_flight,
      (select greatest(0, extract(epoch from now() - min(created_at)))::float8 from oldest) as oldest_waiting_seconds,
      (select count(*)::int from oldest where created_at < now() - make_interval(secs => ${lateSeconds})) as lanes_late,
      (
        select jsonb_build_object(
          'leased', count(*) filter (where state = 'leased'), 'due', count(*) filter (where state = 'due'),
          'later', count(*) filter (where state = 'later'), 'paused', count(*) filter (where state = 'paused')
        ) from lane
      ) as lanes,
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
