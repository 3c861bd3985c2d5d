import type { Database } from '../../db/database.ts'
import { leaseMsMax } from '../../domain/lease.ts'
import { retryMsMax } from '../../domain/retry-schedule.ts'

/*
 * Times that lie further ahead than any that is ever written: PostgreSQL's clock was ahead when they were, and has been set right.
 * Whoever is alive writes better ones within moments. What nobody is at work on would stand still until that time, a year perhaps,
 * and nobody would notice.
 *
 * Neither look has an index of its own: it would be written to thousands of times a second for what happens once in years.
 */

/** At once; there may be a million. */
export const farAtOnce = 5_000

/** Beyond the longest lease, because a clock may be put right by a few seconds at any time. */
const farLeaseMs = leaseMsMax + 60_000
/** By any schedule and not by ours: another node may have a longer one, and so had we perhaps when the retry was put in line. */
const farRetryMs = retryMsMax + 60_000

/**
 * Makes lanes due whose time is wrong, and says how many. A leased one not at once but as if it had been leased now: a holder
 * that is alive renews it in time and loses nothing. For as long as the leases are here, so one with longer leases may lose it.
 *
 * No order, on purpose: with a million lanes that wait for retries, to go through the index took 5 s and through the table 0.7 s.
 * With none that wait it is the index, and a millisecond.
 */
export const mendFarLanes = async (db: Database, leaseMs: number): Promise<number> => {
  const mended = await db`
    with far as materialized (
      select id, org_id from keyhook.lanes
      where due_at > now() + ${farLeaseMs} * interval '1 millisecond' and (
        lease_owner is not null
        -- A free one with work in it was due when it was woken or given back.
        or begun is not null or (ended_at is null and head_seq > cursor_seq)
        or due_at > now() + ${farRetryMs} * interval '1 millisecond'
      )
      limit ${farAtOnce}
    ), locked as materialized (
      select l.id
      from keyhook.lanes l join far f on f.id = l.id and f.org_id = l.org_id
      -- Once more, of the locked row: it may have been renewed meanwhile.
      where l.due_at > now() + ${farLeaseMs} * interval '1 millisecond'
      order by l.id for no key update of l skip locked
    )
    update keyhook.lanes l
    set due_at = now() + case when l.lease_owner is null then 0 else ${leaseMs}::int end * interval '1 millisecond'
    from locked k where l.id = k.id`
  return mended.count
}

/**
 * Makes retries due whose time is wrong, and says in how many lanes. Nobody knows when they should have been: one is tried early
 * rather than never. Their lanes are asked, as for a redelivery, so that none is given back without having been looked at. Of a
 * lane that is never idle nobody but this finds them, so it goes through all retries that wait: 0.3 s for a million.
 */
export const mendFarRetries = async (db: Database): Promise<number> => {
  const mended = await db`
    with far as materialized (
      select lane_id, org_id from keyhook.retries
      where due_at > now() + ${farRetryMs} * interval '1 millisecond'
      group by lane_id, org_id limit ${farAtOnce}
    ), locked as materialized (
      select l.id, l.org_id
      from keyhook.lanes l join far f on f.lane_id = l.id and f.org_id = l.org_id
      order by l.id for no key update of l skip locked
    ), due as (
      update keyhook.retries r set due_at = now()
      from locked k
      where r.lane_id = k.id and r.org_id = k.org_id and r.due_at > now() + ${farRetryMs} * interval '1 millisecond'
    )
    update keyhook.lanes l
    set asked = l.asked + 1,
      due_at = case when l.lease_owner is null and l.ended_at is null then now() else l.due_at end
    from locked k where l.id = k.id`
  return mended.count
}
