import type { Database } from '../../db/database.ts'
import type { OrgId } from '../../kernel/ids.ts'

const eventsAtOnce = 1_000

/** Organizations with events older than that, and the newest of them: one descent of the index for each organization. */
export const listOldEvents = async (
  db: Database,
  olderThanMs: number,
): Promise<{ orgId: OrgId; upToSeq: number }[]> => {
  const rows = await db<{ org_id: OrgId; seq: string }[]>`
    select c.org_id, e.seq
    from keyhook.event_counters c
    cross join lateral (
      select e.seq from keyhook.events e
      where e.org_id = c.org_id and e.created_at < to_timestamp(${olderThanMs} / 1000.0)
      order by e.created_at desc limit 1
    ) e`
  return rows.map((row) => ({ orgId: row.org_id, upToSeq: Number(row.seq) }))
}

/**
 * Deletes those of the next thousand events that are finished everywhere and have left the history, with their
 * deliveries, and says how far it looked; null when it came to the end. Nothing can bring such an event back: sending
 * again starts from an attempt or from a retry that waits. What another node is deleting is skipped.
 */
export const deleteFinishedEvents = async (
  db: Database,
  orgId: OrgId,
  { afterSeq, upToSeq }: { afterSeq: number; upToSeq: number },
): Promise<number | null> => {
  const [row] = await db<{ looked: number; up_to: string | null }[]>`
    with looked as materialized (
      select e.seq from keyhook.events e
      where e.org_id = ${orgId} and e.seq > ${afterSeq} and e.seq <= ${upToSeq}
      order by e.seq limit ${eventsAtOnce} for update skip locked
    ), sending as materialized (
      select lane_id, event_seq from keyhook.in_flight where org_id = ${orgId}
    ), finished as materialized (
      select s.seq from looked s
      where not exists (
        select 1 from keyhook.deliveries d
        join keyhook.lanes l on l.id = d.lane_id and l.org_id = d.org_id
        where d.org_id = ${orgId} and d.event_seq = s.seq and (
          (l.cursor_seq < d.event_seq and l.ended_at is null)
          or exists (
            select 1 from keyhook.retries r
            where r.lane_id = d.lane_id and r.event_seq = d.event_seq and r.org_id = d.org_id
              -- The retry of a webhook that was deleted while its last attempt was on its way is nobody's business.
              and l.ended_at is null
          )
          or exists (select 1 from sending s where s.lane_id = d.lane_id and s.event_seq = d.event_seq)
          or exists (
            select 1 from keyhook.attempts a
            where a.lane_id = d.lane_id and a.event_seq = d.event_seq and a.org_id = d.org_id
          )
        )
      )
    ), retries as (
      delete from keyhook.retries r using finished f, keyhook.deliveries d
      where d.org_id = ${orgId} and d.event_seq = f.seq
        and r.lane_id = d.lane_id and r.event_seq = d.event_seq and r.org_id = d.org_id
    ), deliveries as (
      delete from keyhook.deliveries d using finished f where d.org_id = ${orgId} and d.event_seq = f.seq
    ), events as (
      delete from keyhook.events e using finished f where e.org_id = ${orgId} and e.seq = f.seq
    )
    select count(*)::int as looked, max(seq) as up_to from looked`
  return row!.looked < eventsAtOnce ? null : Number(row!.up_to)
}
