import type { OrgId } from '../kernel/ids.ts'
import type { Database } from './database.ts'
import type { DueDelivery, DueRow } from './unsettled.ts'

/*
 * How lanes learn of what has been published. Whoever holds lanes reads the news, which writes nothing and so costs little
 * and waits for nobody; and what was read that way is written to the lanes a little later, for many events at once. Until
 * it is written the wakes stand, so a dispatcher that dies in between leaves everything for the next to find.
 */

/** For each organization the newest event that was read, so that it is not read again. */
export type Seen = ReadonlyMap<OrgId, number>

/** `writtenSeq`: the newest delivery that the lane was told of in writing. `fresh`: those that it was not, in full. */
export type LaneNews = { laneId: number; writtenSeq: number; held: boolean; fresh: DueDelivery[] }

/** `complete`: there is no more than this. Where there is, none of it is given, and lanes read for themselves. */
export type News = { lanes: LaneNews[]; seen: Map<OrgId, number>; complete: boolean }

/** Beyond this many deliveries they are read lane by lane, as there is room for them. */
export const freshMax = 256

/** A delivery that is new to a lane; or, once, an event that is delivered; or the word that there are too many. */
type NewsRow =
  | { lane_id: string; org_id: OrgId; written_seq: string; held: boolean; event_seq: string }
  | ({ lane_id: null; org_id: OrgId } & Pick<DueRow, 'event_seq' | 'id' | 'type' | 'published_ms'> & { body: string })
  | { lane_id: null; org_id: null }

export const readNews = async (db: Database, seen: Seen, wakesMax: number): Promise<News> => {
  const rows = await db<NewsRow[]>`
    with told as materialized (
      select w.org_id, greatest(w.first_seq, s.seq + 1) as first_seq, w.last_seq
      from keyhook.wakes w
      left join unnest(${[...seen.keys()]}::text[], ${[...seen.values()]}::bigint[]) as s (org_id, seq) on s.org_id = w.org_id
      where s.seq is null or w.last_seq > s.seq
      limit ${wakesMax}
    ), published as materialized (
      -- \`offset 0\` keeps this a descent of the index for every wake: given the choice, a planner that thinks of averages
      -- reads the whole history of an organization instead.
      select t.org_id, d.lane_id, d.event_seq
      from told t
      cross join lateral (
        select d.lane_id, d.event_seq from keyhook.deliveries d
        where d.org_id = t.org_id and d.event_seq >= t.first_seq and d.event_seq <= t.last_seq
        offset 0
      ) d
      limit ${freshMax + 1}
    ), little as materialized (
      select (select count(*) from told) < ${wakesMax} and (select count(*) from published) <= ${freshMax} as enough
    )
    select l.id as lane_id, l.org_id, l.head_seq as written_seq, l.lease_owner is not null as held, p.event_seq,
      null::text as id, null::text as type, null::bigint as published_ms, null::text as body
    from little cross join published p join keyhook.lanes l on l.id = p.lane_id and l.org_id = p.org_id
    where little.enough
    union all
    select null, t.org_id, null, null, e.seq, e.id, e.type, (extract(epoch from e.created_at) * 1000)::bigint, e.body
    from little cross join told t
    cross join lateral (
      select e.seq, e.id, e.type, e.created_at, e.body from keyhook.events e
      where e.org_id = t.org_id and e.seq >= t.first_seq and e.seq <= t.last_seq
      offset 0
    ) e
    where little.enough
    union all
    select null, null, null, null, null, null, null, null, null from little where not little.enough`
  return newsOf(rows)
}

function newsOf(rows: readonly NewsRow[]): News {
  const events = new Map<string, Pick<DueDelivery, 'eventId' | 'eventType' | 'publishedAtMs' | 'body'>>()
  const seen = new Map<OrgId, number>()
  let complete = true
  for (const row of rows) {
    if (row.lane_id !== null) continue
    if (row.org_id === null) {
      complete = false
      continue
    }
    const event = { eventId: row.id, eventType: row.type, publishedAtMs: Number(row.published_ms) }
    events.set(`${row.org_id} ${row.event_seq}`, { ...event, body: Buffer.from(row.body) })
    seen.set(row.org_id, Math.max(seen.get(row.org_id) ?? 0, Number(row.event_seq)))
  }
  const lanes = new Map<number, LaneNews>()
  for (const row of rows) {
    if (row.lane_id === null) continue
    const laneId = Number(row.lane_id)
    let lane = lanes.get(laneId)
    if (lane === undefined) {
      lane = { laneId, writtenSeq: Number(row.written_seq), held: row.held, fresh: [] }
      lanes.set(laneId, lane)
    }
    const event = events.get(`${row.org_id} ${row.event_seq}`)!
    lane.fresh.push({ laneId, eventSeq: Number(row.event_seq), ...event, attempts: 0, tries: 0 })
  }
  for (const { fresh } of lanes.values()) fresh.sort((a, b) => a.eventSeq - b.eventSeq)
  return { lanes: [...lanes.values()], seen, complete }
}

/** `held`: somebody has its lease, and has to be told. */
export type WokenLane = { laneId: number; headSeq: number; held: boolean }

/**
 * Tells lanes of what has been published, in writing. A wake that can be seen is committed, and so are the deliveries that
 * it stands for; one that another dispatcher is passing on is skipped. No publisher is waited for, and none waits for this.
 */
export const wakeLanes = async (db: Database, wakesMax: number): Promise<WokenLane[]> => {
  const rows = await db<{ id: string; head_seq: string; held: boolean }[]>`
    with quick as materialized (select set_config('synchronous_commit', 'off', true)), taken as (
      -- By their place, which a row that is never updated keeps: a join would look through all that were taken before.
      delete from keyhook.wakes where ctid = any (array(
        select ctid from keyhook.wakes order by org_id, first_seq limit ${wakesMax} for update skip locked
      ))
      returning org_id, first_seq, last_seq
    ), heads as materialized (
      select t.org_id, d.lane_id, max(d.event_seq) as head_seq
      from taken t
      -- \`offset 0\`: as above.
      cross join lateral (
        select d.lane_id, d.event_seq from keyhook.deliveries d
        where d.org_id = t.org_id and d.event_seq >= t.first_seq and d.event_seq <= t.last_seq
        offset 0
      ) d
      group by t.org_id, d.lane_id
    ), locked as materialized (
      select l.id, l.org_id, h.head_seq
      from keyhook.lanes l join heads h on h.lane_id = l.id and h.org_id = l.org_id
      order by l.id for no key update of l
    )
    update keyhook.lanes l
    set head_seq = greatest(l.head_seq, k.head_seq),
        due_at = case when l.ended_at is null and l.lease_owner is null then least(l.due_at, now()) else l.due_at end
    from quick, locked k where l.id = k.id and l.org_id = k.org_id
    returning l.id, l.head_seq, l.lease_owner is not null as held`
  return rows.map((row) => ({ laneId: Number(row.id), headSeq: Number(row.head_seq), held: row.held }))
}
