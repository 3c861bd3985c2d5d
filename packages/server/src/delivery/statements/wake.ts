import type { Database } from '../../db/database.ts'

/** Where the next call continues: organization and first number of the last wake that was taken. */
export type WakeCursor = { orgId: string; firstSeq: number }
export const firstWake: WakeCursor = { orgId: '', firstSeq: 0 }

/** `free`: how many lanes without a holder have become due. `next`: null when the end was reached. */
export type Woken = { free: number; next: WakeCursor | null }

/** Ranges wider than this are looked up lane by lane, newest delivery first. */
const wideRange = 1_000

/**
 * Moves wakes into lanes: `head_seq` is the newest delivery that a lane has to send, and a free lane becomes due. A wake that can be
 * seen is committed, and so are its deliveries. Lanes that began everything already are left alone: with a busy holder that is all
 * of them, so this locks nothing that a begin waits for.
 *
 * A paused lane becomes due when its pause ends, a suspended one when it is tried next: `greatest` takes no notice of nulls.
 *
 * Wakes of organizations with a locked lane stay for the next round. Each call continues behind the last one, so these do not keep
 * the others from being taken.
 */
export const wakeLanes = async (db: Database, after: WakeCursor, wakesMax: number): Promise<Woken> => {
  const [row] = await db<{ taken: number; free: number; org_id: string | null; first_seq: string | null }[]>`
    with async as materialized (select set_config('synchronous_commit', 'off', true)), taken as materialized (
      select w.org_id, w.first_seq, w.last_seq from keyhook.wakes w
      where (w.org_id, w.first_seq) > (${after.orgId}::text, ${after.firstSeq}::bigint)
      order by w.org_id, w.first_seq limit ${wakesMax} for update skip locked
    ), heads as materialized (
      select d.lane_id, t.org_id, max(d.event_seq) as head_seq
      from taken t
      -- "offset 0" keeps this an index look-up per wake: without it the planner may read an organization's whole history.
      cross join lateral (
        (
          select d.lane_id, d.event_seq from keyhook.deliveries d
          where t.last_seq - t.first_seq < ${wideRange} and d.org_id = t.org_id
            and d.event_seq >= t.first_seq and d.event_seq <= t.last_seq
          offset 0
        ) union all (
          select l.id, d.event_seq
          from keyhook.lanes l cross join lateral (
            select d.event_seq from keyhook.deliveries d
            where d.lane_id = l.id and d.event_seq >= t.first_seq and d.event_seq <= t.last_seq
            order by d.event_seq desc limit 1
          ) d
          where t.last_seq - t.first_seq >= ${wideRange} and l.org_id = t.org_id
          offset 0
        )
      ) d
      group by d.lane_id, t.org_id
    ), behind as materialized (
      select h.lane_id, h.org_id, h.head_seq from heads h cross join lateral (
        select from keyhook.lanes l where l.id = h.lane_id and l.head_seq < h.head_seq and l.ended_at is null offset 0
      ) l
    ), locked as materialized (
      select l.id, b.head_seq from async cross join behind b cross join lateral (
        select l.id, l.org_id from keyhook.lanes l where l.id = b.lane_id for no key update of l skip locked
      ) l
      -- Always true. With it the planner expects few rows, and updates them by the index instead of reading all lanes.
      where l.org_id = b.org_id
    ), woken as (
      update keyhook.lanes l
      set head_seq = greatest(l.head_seq, k.head_seq), due_at = case
        when l.ended_at is null and l.lease_owner is null and k.head_seq > l.cursor_seq then least(
          l.due_at, greatest(now(), l.paused_until, case when l.suspended_until > now() then l.probe_at end)
        )
        else l.due_at
      end
      from locked k where l.id = k.id
      returning l.lease_owner
    ), done as (
      delete from keyhook.wakes w using taken t
      where w.org_id = t.org_id and w.first_seq = t.first_seq and not exists (
        select from behind b where b.org_id = t.org_id and b.lane_id not in (select id from locked)
      )
    )
    select last.org_id, last.first_seq, (select count(*) from taken)::int as taken,
      (select count(*) from woken where lease_owner is null)::int as free
    from async left join (
      select org_id, first_seq from taken order by org_id desc, first_seq desc limit 1
    ) last on true`
  const { taken, free, org_id, first_seq } = row!
  return { free, next: taken < wakesMax ? null : { orgId: org_id!, firstSeq: Number(first_seq) } }
}
