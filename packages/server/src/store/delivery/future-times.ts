import type { Database } from '../../db/database.ts'
import { leaseMsMax } from '../../domain/lease.ts'
import { retryMsMax } from '../../domain/retry-schedule.ts'
import { pauseMsMax } from '../../domain/webhook.ts'

/*
 * Times further in the future than any lease or schedule: PostgreSQL's clock was ahead when they were written. Without a correction,
 * free lanes and their retries would wait until then. There is no index for this: each statement reads a whole table once an hour
 * (0.3 s for a million retries). Locked lanes are skipped until the next hour.
 */

/** A minute more than the longest lease, because clocks are often corrected by seconds. */
const leaseMsTooLong = leaseMsMax + 60_000
/** The longest wait of any schedule, not of ours: another node may have a longer one. */
const retryMsTooLong = retryMsMax + 60_000
const pauseMsTooLong = pauseMsMax + 60_000

/**
 * Makes lanes due whose time is wrong, and returns how many. A leased lane gets the time of a new lease: a holder that is alive
 * renews it. A free lane with new deliveries or attempts in flight is due at once, or when its pause ends. A pause that is longer
 * than any may be ends now.
 */
export const correctLanes = async (db: Database, leaseMs: number): Promise<number> => {
  const corrected = await db`
    with wrong as materialized (
      select l.id from keyhook.lanes l
      where l.due_at > now() + ${leaseMsTooLong} * interval '1 millisecond' and (
        l.lease_owner is not null
        or l.paused_until > now() + ${pauseMsTooLong} * interval '1 millisecond'
        or (l.ended_at is null and l.head_seq > l.cursor_seq and (l.paused_until > now()) is not true)
        or exists (select from keyhook.in_flight f where f.lane_id = l.id)
        or l.due_at > greatest(now() + ${retryMsTooLong} * interval '1 millisecond', l.paused_until)
      )
      order by l.id for no key update of l skip locked
    )
    update keyhook.lanes l
    set due_at = case when l.lease_owner is null then now() else now() + ${leaseMs} * interval '1 millisecond' end,
      paused_until = case
        when l.paused_until <= now() + ${pauseMsTooLong} * interval '1 millisecond' then l.paused_until
      end
    from wrong w where l.id = w.id`
  return corrected.count
}

/**
 * Makes retries due whose time is wrong, and returns in how many lanes. The right time is unknown, and early is better than never.
 * The lanes are locked first, as everywhere, and count it as a redelivery request, so that their holders look for it.
 */
export const correctRetries = async (db: Database): Promise<number> => {
  const corrected = await db`
    with lane as materialized (
      select l.id from keyhook.lanes l
      where l.id in (
        select r.lane_id from keyhook.retries r where r.due_at > now() + ${retryMsTooLong} * interval '1 millisecond'
      )
      order by l.id for no key update of l skip locked
    ), retried as (
      update keyhook.retries r set due_at = now()
      from lane where r.lane_id = lane.id and r.due_at > now() + ${retryMsTooLong} * interval '1 millisecond'
    )
    update keyhook.lanes l
    set redelivery_requests = l.redelivery_requests + 1,
      due_at = case when l.lease_owner is null and l.ended_at is null then greatest(now(), l.paused_until) else l.due_at end
    from lane where l.id = lane.id`
  return corrected.count
}
