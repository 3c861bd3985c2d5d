import type { Database } from '../../db/database.ts'
import { plainArray } from './arrays.ts'
import type { HeldLane } from './lease.ts'

/**
 * After lanes were leased: what an earlier holder began and never settled is recorded as `interrupted` (outcome unknown) and is due
 * again at once. Runs under the lease, so that a process that lost the lane meanwhile does not touch its successor's attempts.
 * Returns the lanes that are free of such attempts now; the others are locked or lost.
 */
export const interruptAttempts = async (db: Database, held: readonly HeldLane[]): Promise<number[]> => {
  const rows = await db<{ id: string }[]>`
    with lane as materialized (
      select l.id, l.lease_token, l.ended_at
      from unnest(
        ${plainArray(held.map((lane) => lane.laneId))}::bigint[], ${plainArray(held.map((lane) => lane.token))}::bigint[]
      ) as h (id, token)
      cross join lateral (
        select l.id, l.lease_token, l.ended_at from keyhook.lanes l
        where l.id = h.id and l.lease_token = h.token and l.lease_server = pg_postmaster_start_time()
        for no key update of l skip locked
      ) l
    ), stale as (
      delete from keyhook.in_flight f using lane l where f.lane_id = l.id and f.lease_token <> l.lease_token
      returning f.*, case when l.ended_at is null then now() end as next_attempt_at
    ), recorded as (
      insert into keyhook.attempts (
        lane_id, id, org_id, event_seq, attempt, status, started_at, error_code, error_detail, next_attempt_at
      )
      select lane_id, id, org_id, event_seq, attempt, 'interrupted', started_at, 'interrupted',
        'The dispatcher stopped before the outcome was known.', next_attempt_at
      from stale
    ), retried as (
      insert into keyhook.retries (lane_id, event_seq, org_id, due_at, attempt, try)
      select lane_id, event_seq, org_id, next_attempt_at, attempt, try from stale where next_attempt_at is not null
    )
    select id from lane`
  return rows.map((row) => Number(row.id))
}
