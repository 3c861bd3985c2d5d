import type { Database } from '../../db/database.ts'
import type { OrgId } from '../../kernel/ids.ts'
import { type DueDelivery, deliveryOf, type EventRow, eventsOf } from './due.ts'
import { boundedWait, orPassOver, type WhenLocked } from './lane-locks.ts'

/*
 * How lanes learn of what has been published. Whoever holds lanes reads the news, which writes nothing and so costs little
 * and waits for nobody; and what was read that way is written to the lanes a little later, for many events at once. Until
 * it is written the wakes stand, so a dispatcher that dies in between leaves everything for the next to find.
 */

/** For each organization the newest event that was read, so that it is not read again. */
export type Seen = ReadonlyMap<OrgId, number>

/** `writtenSeq`: the newest delivery that the lane was told of in writing. `fresh`: those that it was not, in full. */
export type LaneNews = { laneId: number; writtenSeq: number; fresh: DueDelivery[] }

/**
 * `lanes`: those of the one who asks. `forFree`: some of the news is for lanes that nobody holds. `complete`: there is no more
 * than this; where there is, none of it is given, and lanes read for themselves.
 */
export type News = { lanes: LaneNews[]; seen: Map<OrgId, number>; forFree: boolean; complete: boolean }

/** Beyond this many deliveries they are read lane by lane, as there is room for them. */
export const freshMax = 256

type NewsRow = { org_id: OrgId; seq: string } & (
  | { what: 'seen' }
  | ({ what: 'event' } & EventRow)
  | { what: 'delivery'; lane_id: string; written_seq: string }
  | { what: 'for_free' | 'incomplete' }
)

/**
 * Of an event that goes to many lanes the body crosses the wire once; of one that goes to lanes of others, not at all. What is
 * given stands in subqueries, so that the planner cannot see it: it would plan the statement anew each time, for little news
 * and known names, which costs as much as running it.
 */
export const readNews = async (db: Database, owner: string, seen: Seen, wakesMax: number): Promise<News> => {
  const rows = await db<NewsRow[]>`
    with told as materialized (
      select w.org_id, greatest(w.first_seq, s.seq + 1) as first_seq, w.last_seq
      from keyhook.wakes w
      left join unnest((select ${[...seen.keys()]}::text[]), (select ${[...seen.values()]}::bigint[])) as s (org_id, seq)
        on s.org_id = w.org_id
      where s.seq is null or w.last_seq > s.seq
      limit (select ${wakesMax}::bigint)
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
      limit (select ${freshMax + 1}::bigint)
    ), little as materialized (
      select (select count(*) from told) < ${wakesMax} and (select count(*) from published) <= ${freshMax} as enough
    ), concerned as materialized (
      select p.org_id, p.lane_id, p.event_seq, l.head_seq, l.lease_owner
      from little cross join published p join keyhook.lanes l on l.id = p.lane_id and l.org_id = p.org_id
      where little.enough and (l.lease_owner is null or l.lease_owner = (select ${owner}::text))
    )
    select 'seen' as what, t.org_id, t.last_seq as seq, null::bigint as lane_id, null::bigint as written_seq,
      null::text as id, null::text as type, null::bigint as published_ms, null::text as body
    from little cross join told t where little.enough
    union all
    select 'delivery', org_id, event_seq, lane_id, head_seq, null, null, null, null
    from concerned where lease_owner is not null
    union all
    select 'event', e.org_id, e.seq, null, null, e.id, e.type, (extract(epoch from e.created_at) * 1000)::bigint, e.body
    from (select distinct org_id, event_seq from concerned where lease_owner is not null) c
    cross join lateral (
      select e.* from keyhook.events e where e.org_id = c.org_id and e.seq = c.event_seq offset 0
    ) e
    union all
    select 'for_free', null, null, null, null, null, null, null, null
    where exists (select from concerned where lease_owner is null)
    union all
    select 'incomplete', null, null, null, null, null, null, null, null from little where not little.enough`
  return newsOf(rows)
}

function newsOf(rows: readonly NewsRow[]): News {
  const events = eventsOf(rows.filter((row) => row.what === 'event'))
  const lanes = new Map<number, LaneNews>()
  const news: News = { lanes: [], seen: new Map(), forFree: false, complete: true }
  for (const row of rows) {
    if (row.what === 'incomplete') news.complete = false
    else if (row.what === 'for_free') news.forFree = true
    else if (row.what === 'seen') news.seen.set(row.org_id, Math.max(news.seen.get(row.org_id) ?? 0, Number(row.seq)))
    else if (row.what === 'delivery') {
      const laneId = Number(row.lane_id)
      const eventSeq = Number(row.seq)
      const lane = lanes.get(laneId) ?? { laneId, writtenSeq: Number(row.written_seq), fresh: [] }
      lanes.set(laneId, lane)
      lane.fresh.push(deliveryOf({ laneId, eventSeq, attempts: 0, tries: 0 }, events.get(row.org_id)!.get(eventSeq)!))
    }
  }
  for (const lane of lanes.values()) {
    lane.fresh.sort((a, b) => a.eventSeq - b.eventSeq)
    // A wake that was left for lanes that were locked may reach over others.
    lane.fresh = lane.fresh.filter(({ eventSeq }, i) => eventSeq !== lane.fresh[i - 1]?.eventSeq)
  }
  return { ...news, lanes: [...lanes.values()] }
}

/** So many events and more are looked for lane by lane. */
const wideRange = 1_000

/** `held`: somebody has its lease, and has to be told. `more`: there were as many wakes as are taken at once. */
export type Woken = { lanes: { laneId: number; headSeq: number; held: boolean }[]; more: boolean }

/**
 * Tells lanes of what has been published, in writing. A wake that can be seen is committed, and so are the deliveries that
 * it stands for; one that another dispatcher is passing on is skipped. No publisher is waited for, and none waits for this.
 * Of lanes that are passed over a wake is left, for the next time.
 */
export const wakeLanes = async (db: Database, wakesMax: number, whenLocked: WhenLocked = 'wait'): Promise<Woken> => {
  const rows = await db<WokenRow[]>`
    with quick as materialized (select set_config('synchronous_commit', 'off', true), ${boundedWait(db)}), taken as (
      -- By their place, which a row that is never updated keeps: a join would look through all that were taken before.
      delete from keyhook.wakes where ctid = any (array(
        select ctid from keyhook.wakes order by org_id, first_seq limit ${wakesMax} for update skip locked
      ))
      returning org_id, first_seq, last_seq
    ), heads as materialized (
      select t.org_id, d.lane_id, min(t.first_seq) as first_seq, max(d.event_seq) as head_seq
      from taken t
      -- \`offset 0\`: as above. What is left of locked lanes comes to stand for a long time, and would be gone through again
      -- and again: of a wide range every lane is asked for its newest.
      cross join lateral (
        (
          select d.lane_id, d.event_seq from keyhook.deliveries d
          where t.last_seq - t.first_seq < ${wideRange} and d.org_id = t.org_id
            and d.event_seq >= t.first_seq and d.event_seq <= t.last_seq
          offset 0
        ) union all (
          select l.id, d.event_seq
          from keyhook.lanes l
          cross join lateral (
            select d.event_seq from keyhook.deliveries d
            where d.lane_id = l.id and d.event_seq >= t.first_seq and d.event_seq <= t.last_seq
            order by d.event_seq desc limit 1
          ) d
          where t.last_seq - t.first_seq >= ${wideRange} and l.org_id = t.org_id
          offset 0
        )
      ) d
      group by t.org_id, d.lane_id
    ), locked as materialized (
      select l.id, l.org_id, h.head_seq
      from quick cross join keyhook.lanes l join heads h on ${hasToHear(db)}
      order by l.id for no key update of l ${orPassOver(db, whenLocked)}
    ) ${whenLocked === 'wait' ? db`` : db`, ${leftOver(db)}`}, told as (
      update keyhook.lanes l
      set head_seq = greatest(l.head_seq, k.head_seq),
          due_at = case
            when l.ended_at is null and l.lease_owner is null and k.head_seq > l.cursor_seq then least(l.due_at, now())
            else l.due_at
          end
      from locked k where l.id = k.id
      returning l.id, l.head_seq, l.lease_owner is not null as held
    )
    -- \`quick\` again: where no lane has to hear, it would not be read before.
    select t.wakes, ${whenLocked === 'wait' ? db`0` : db`(select count(*)::int from left_over)`} as left_over,
      told.id, told.head_seq, told.held
    from quick cross join (select count(*)::int as wakes from taken) t left join told on true`
  const lanes = rows.flatMap(({ id, head_seq, held }) =>
    id === null ? [] : [{ laneId: Number(id), headSeq: Number(head_seq), held }],
  )
  const { wakes, left_over } = rows[0]!
  // Where all that was taken is left for locked lanes, the next time it would be the same.
  return { lanes, more: wakes === wakesMax && (left_over === 0 || lanes.length > 0) }
}

type WokenRow = { wakes: number; left_over: number } & (
  | { id: string; head_seq: string; held: boolean }
  | { id: null; head_seq: null; held: null }
)

/** Not a lane in which all of it has begun, because its holder has heard already: mostly that is all of them, and none is locked. */
const hasToHear = (db: Database) => db`l.id = h.lane_id and l.org_id = h.org_id and l.head_seq < h.head_seq`

/**
 * One for each organization, however many it stands for: else those of locked lanes would come to be all that is taken. It begins
 * where one of those began that were taken, and no two do. What lies between may be told twice, which changes nothing.
 */
const leftOver = (db: Database) => db`
  left_over as (
    insert into keyhook.wakes (org_id, first_seq, last_seq)
    select h.org_id, min(h.first_seq), max(h.head_seq)
    from heads h join keyhook.lanes l on ${hasToHear(db)}
    where h.lane_id not in (select id from locked)
    group by h.org_id
    returning org_id
  )`
