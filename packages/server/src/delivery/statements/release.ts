import type { Database } from '../../db/database.ts'
import { plainArray } from '../../db/statement.ts'
import type { HeldLane } from './lease.ts'

/** `abandon`: given back whatever is in it. */
export type ReleasedLane = HeldLane & { redeliveryRequests: number; abandon: boolean }

/**
 * Gives lanes back and says which. One that was woken or has a new redelivery request since is not given back: both are compared
 * in the locked row, so that nothing is missed between two reads. Nor is one with an attempt in flight: then this statement comes
 * late, from a connection that was given up, and the attempt would be in a lane that is never due.
 */
export const releaseLanes = async (db: Database, held: readonly ReleasedLane[]): Promise<number[]> => {
  const rows = await db<{ id: string }[]>`
    with async as materialized (select set_config('synchronous_commit', 'off', true)), given as materialized (
      select l.id, h.abandon
      from async cross join unnest(
        ${plainArray(held.map((lane) => lane.laneId))}::bigint[], ${plainArray(held.map((lane) => lane.token))}::bigint[],
        ${plainArray(held.map((lane) => lane.redeliveryRequests))}::int[],
        ${plainArray(held.map((lane) => lane.abandon))}::boolean[]
      ) as h (id, token, redelivery_requests, abandon)
      cross join lateral (
        select l.id from keyhook.lanes l
        where l.id = h.id and l.lease_token = h.token and (
          h.abandon or (
            l.lease_server = pg_postmaster_start_time()
            and (l.ended_at is not null or (l.head_seq <= l.cursor_seq and l.redelivery_requests = h.redelivery_requests))
            and not exists (select from keyhook.in_flight f where f.lane_id = h.id)
          )
        )
        for no key update of l skip locked
      ) l
    )
    update keyhook.lanes l
    set lease_owner = null, due_at = case
      -- An attempt without an outcome is interrupted by the next holder.
      when exists (select from keyhook.in_flight f where f.lane_id = l.id) then now()
      when l.ended_at is not null then null
      when g.abandon then greatest(now(), l.paused_until)
      else (
        select greatest(r.due_at, l.paused_until) from keyhook.retries r where r.lane_id = l.id order by r.due_at limit 1
      )
    end
    from given g where l.id = g.id
    returning l.id`
  return rows.map((row) => Number(row.id))
}
