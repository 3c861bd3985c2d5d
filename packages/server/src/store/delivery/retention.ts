import type { Database } from '../../db/database.ts'
import type { OrgId } from '../../kernel/ids.ts'

const eventsPerStatement = 1_000

/** Organizations with events older than that, and the number of the newest such event: one index look-up per organization. */
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
 * Examines the next thousand events and deletes those that are finished for every webhook and have no attempts in the history any
 * more. Nothing can send such an event again: redelivery starts from an attempt or a waiting retry. Events that another node is
 * deleting are skipped. Returns how far it came; null at the end. The newest number that was deleted is remembered, because the
 * events before it that are left are not all.
 *
 * A retry of a deleted webhook does not count: it is left by an attempt that was settled while the webhook was being deleted.
 */
export const deleteFinishedEvents = async (
  db: Database,
  orgId: OrgId,
  { afterSeq, upToSeq }: { afterSeq: number; upToSeq: number },
): Promise<number | null> => {
  const [row] = await db<{ examined: number; up_to: string | null }[]>`
    with examined as materialized (
      select e.seq from keyhook.events e
      where e.org_id = ${orgId} and e.seq > ${afterSeq} and e.seq <= ${upToSeq}
      order by e.seq limit ${eventsPerStatement} for update skip locked
    ), finished as materialized (
      select s.seq from examined s
      where not exists (
        select from keyhook.deliveries d join keyhook.lanes l on l.id = d.lane_id
        where d.org_id = ${orgId} and d.event_seq = s.seq and (
          (l.ended_at is null and l.cursor_seq < d.event_seq)
          or (l.ended_at is null and exists (
            select from keyhook.retries r where r.lane_id = d.lane_id and r.event_seq = d.event_seq
          ))
          or exists (select from keyhook.in_flight f where f.lane_id = d.lane_id and f.event_seq = d.event_seq)
          or exists (select from keyhook.attempts a where a.lane_id = d.lane_id and a.event_seq = d.event_seq)
        )
      )
    ), deliveries as (
      delete from keyhook.deliveries d using finished f where d.org_id = ${orgId} and d.event_seq = f.seq
      returning d.lane_id, d.event_seq
    ), retries as (
      delete from keyhook.retries r using deliveries d where r.lane_id = d.lane_id and r.event_seq = d.event_seq
    ), events as (
      delete from keyhook.events e using finished f where e.org_id = ${orgId} and e.seq = f.seq
      returning e.sequence
    ), expired as (
      insert into keyhook.expired_events as x (org_id, last_sequence)
      select ${orgId}, max(sequence) from events having max(sequence) is not null
      on conflict (org_id) do update set last_sequence = greatest(x.last_sequence, excluded.last_sequence)
    )
    select count(*)::int as examined, max(seq) as up_to from examined`
  return row!.examined < eventsPerStatement ? null : Number(row!.up_to)
}

/** No attempt of before that time is left to show them with. */
export const deleteEarlierUrls = async (db: Database, olderThanMs: number): Promise<void> => {
  await db`delete from keyhook.earlier_urls where until < to_timestamp(${olderThanMs} / 1000.0)`
}
