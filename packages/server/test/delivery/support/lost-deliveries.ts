import type { Database } from '../../../src/db/database.ts'

/** Unfinished deliveries that no dispatcher would ever look at again, in one snapshot of the database. */
export const findLostDeliveries = (db: Database) => db`
  select 'a retry in a lane that is not due' as why, r.lane_id, r.event_seq
  from keyhook.retries r join keyhook.lanes l on l.id = r.lane_id
  where l.ended_at is null and (l.due_at is null or (
    l.lease_owner is null and l.due_at > greatest(r.due_at, now(), case when l.suspended_until > now() then l.probe_at end)
  ))
  union all
  select 'an attempt in flight in a lane that is not due', f.lane_id, f.event_seq
  from keyhook.in_flight f join keyhook.lanes l on l.id = f.lane_id
  where l.due_at is null or (l.lease_owner is null and l.due_at > now())
  union all
  select 'a first attempt without a wake', d.lane_id, d.event_seq
  from keyhook.deliveries d join keyhook.lanes l on l.id = d.lane_id
  where l.ended_at is null and d.event_seq > l.cursor_seq and (l.due_at is null or l.head_seq < d.event_seq)
    and not exists (
      select 1 from keyhook.wakes w
      where w.org_id = d.org_id and d.event_seq >= w.first_seq and d.event_seq <= w.last_seq
    )`
