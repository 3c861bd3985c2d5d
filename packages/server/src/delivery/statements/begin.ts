import type { Database } from '../../db/database.ts'
import { plainArray } from '../../db/statement.ts'

/** An attempt that is about to be made. `attempt` counts all of the delivery, `tries` those of the schedule before this one. */
export type NewAttempt = {
  laneId: number
  token: number
  eventSeq: number
  attempt: number
  tries: number
  attemptId: string
  startedAtMs: number
  /** Of the settings that the request is made with. */
  version: number
  /** A first attempt before its turn: a test event of a suspended webhook. */
  early: boolean
  /** The holder knows the webhook as suspended. */
  suspended: boolean
}

/**
 * `lanes`: those that are held, not locked and not paused, with unchanged settings, and suspended or not as their holders know them; in
 * the others nothing was begun. `begun`:
 * attempts that are on disk and may be sent, with the tries of their schedule so far.
 */
export type Begun = { lanes: ReadonlySet<number>; begun: ReadonlyMap<string, number> }

/**
 * Writes attempts down before their requests leave. The lanes are locked by the statement, and deleting, pausing or changing a
 * webhook takes the same lock: once that is answered, nothing begins, or nothing with the old settings. Locked lanes are skipped,
 * because this statement serves many receivers.
 *
 * A first attempt begins only beyond the lane's cursor, a retry only if its row is still waiting. So a statement that is sent twice,
 * or arrives late from a connection that was given up, begins nothing twice. `begun` also names attempts that are in flight already,
 * for the second of two.
 *
 * Of a suspended lane only what was requested begins, and a probe if it is due; the next one is due `probeMs` later, whatever becomes of
 * this one.
 *
 * The lease is extended once half of it has passed: `due_at` is indexed, and otherwise the update stays within its page.
 */
export const beginAttempts = async (
  db: Database,
  attempts: readonly NewAttempt[],
  { leaseMs, probeMs }: { leaseMs: number; probeMs: number },
): Promise<Begun> => {
  const lanes = lanesOf(attempts)
  const rows = await db<{ lane_id: string; id: string | null; try: number | null }[]>`
    with lane as materialized (
      select i.lane_id, l.org_id, l.cursor_seq, i.newest_seq, i.suspended and not l.may_probe as waits, i.suspended
      from unnest(
        ${plainArray(lanes.map((one) => one.laneId))}::bigint[], ${plainArray(lanes.map((one) => one.token))}::bigint[],
        ${plainArray(lanes.map((one) => one.newestSeq))}::bigint[], ${plainArray(lanes.map((one) => one.version))}::int[],
        ${plainArray(lanes.map((one) => one.suspended))}::boolean[]
      ) as i (lane_id, token, newest_seq, version, suspended)
      cross join lateral (
        select l.org_id, l.cursor_seq, l.probe_at <= now() as may_probe from keyhook.lanes l
        where l.id = i.lane_id and l.lease_token = i.token and l.lease_server = pg_postmaster_start_time()
          and l.lease_owner is not null and l.ended_at is null
          and l.version = i.version and (l.paused_until > now()) is not true
          and ((l.suspended_until > now()) is true) = i.suspended
        for no key update of l skip locked
      ) l
    ), given as materialized (
      select * from unnest(
        ${plainArray(attempts.map((one) => one.laneId))}::bigint[], ${plainArray(attempts.map((one) => one.eventSeq))}::bigint[],
        ${plainArray(attempts.map((one) => one.attemptId))}::uuid[], ${plainArray(attempts.map((one) => one.token))}::bigint[],
        ${plainArray(attempts.map((one) => one.attempt))}::int[], ${plainArray(attempts.map((one) => one.startedAtMs))}::bigint[],
        ${plainArray(attempts.map(isFirst))}::boolean[]
      ) as g (lane_id, event_seq, id, token, attempt, started_ms, is_first)
    ), retry as (
      delete from keyhook.retries r using given g, lane b
      where not g.is_first and b.lane_id = g.lane_id
        and r.lane_id = g.lane_id and r.event_seq = g.event_seq and greatest(r.attempt, ~r.attempt) = g.attempt - 1
        and (r.redelivered or r.attempt < 0 or not b.waits)
      returning g.id, r.try, r.redelivered, r.redelivered or r.attempt < 0 as requested
    ), fresh as materialized (
      select g.*, b.org_id, coalesce(r.try, 0) as try, coalesce(r.redelivered, false) as redelivered,
        coalesce(r.requested, false) as requested
      from lane b join given g on g.lane_id = b.lane_id left join retry r on r.id = g.id
      where r.id is not null or (g.is_first and g.event_seq > b.cursor_seq and not b.waits)
    ), written as (
      insert into keyhook.in_flight (lane_id, event_seq, org_id, id, lease_token, attempt, try, redelivered, started_at)
      select lane_id, event_seq, org_id, id, token, attempt, try, redelivered, to_timestamp(started_ms / 1000.0) from fresh
    ), moved as (
      update keyhook.lanes l
      set cursor_seq = case when b.waits then l.cursor_seq else greatest(l.cursor_seq, b.newest_seq) end,
        head_seq = greatest(l.head_seq, b.newest_seq),
        probe_at = case
          when b.suspended and exists (select from fresh f where f.lane_id = b.lane_id and not f.requested)
            then now() + ${probeMs} * interval '1 millisecond'
          else l.probe_at
        end,
        due_at = case
          when l.due_at < now() + ${leaseMs / 2} * interval '1 millisecond' then now() + ${leaseMs} * interval '1 millisecond'
          else l.due_at
        end
      from lane b where l.id = b.lane_id
    )
    select b.lane_id, f.id, f.try from lane b left join fresh f on f.lane_id = b.lane_id`
  const covered = new Set(rows.map((row) => Number(row.lane_id)))
  const begun = new Map<string, number>()
  for (const row of rows) if (row.id !== null) begun.set(row.id, row.try!)
  const others = attempts.filter((one) => covered.has(one.laneId) && !begun.has(one.attemptId))
  for (const row of others.length > 0 ? await findInFlight(db, others) : []) begun.set(row.id, row.try)
  return { lanes: covered, begun }
}

/**
 * Attempts that an earlier call wrote, whose answer was lost. A statement of its own, for what was committed while the one above waited
 * for its locks: that one would find neither the deliveries to begin nor the attempts.
 */
const findInFlight = (db: Database, attempts: readonly NewAttempt[]) => db<{ id: string; try: number }[]>`
  select f.id, f.try
  from unnest(
    ${plainArray(attempts.map((one) => one.laneId))}::bigint[], ${plainArray(attempts.map((one) => one.eventSeq))}::bigint[],
    ${plainArray(attempts.map((one) => one.attemptId))}::uuid[]
  ) as g (lane_id, event_seq, id)
  cross join lateral (
    select f.id, f.try from keyhook.in_flight f
    where f.lane_id = g.lane_id and f.event_seq = g.event_seq and f.id = g.id
    offset 0
  ) f`

const isFirst = ({ attempt, early }: NewAttempt): boolean => attempt === 1 && !early

/** Each lane once, in the order of ids in which all statements lock them, with its newest first attempt. */
function lanesOf(attempts: readonly NewAttempt[]) {
  const lanes = new Map<
    number,
    Pick<NewAttempt, 'laneId' | 'token' | 'version' | 'suspended'> & { newestSeq: number }
  >()
  for (const attempt of attempts) {
    const { laneId, token, version, suspended } = attempt
    const lane = lanes.get(laneId) ?? { laneId, token, version, suspended, newestSeq: 0 }
    if (isFirst(attempt)) lane.newestSeq = Math.max(lane.newestSeq, attempt.eventSeq)
    lanes.set(laneId, lane)
  }
  return [...lanes.values()].sort((a, b) => a.laneId - b.laneId)
}
