import type { OrgId } from '../kernel/ids.ts'
import { plainArray, textArray } from './arrays.ts'
import type { Database } from './database.ts'
import { type DueDelivery, deliveryOf, type EventRow, eventOf } from './due.ts'

/** `attempt` counts every attempt of the delivery, `tries` those of the running schedule before this one. */
export type BegunAttempt = {
  laneId: number
  token: number
  eventSeq: number
  attempt: number
  tries: number
  attemptId: string
  startedAtMs: number
}

/**
 * `no` grows with every beginning of a lease. `fresh`: what begins now. `unsettled`: all that the lane has on its way, `fresh`
 * included: this is what takes the place of what stood there before.
 */
export type Beginning = {
  laneId: number
  token: number
  no: number
  fresh: readonly BegunAttempt[]
  unsettled: readonly BegunAttempt[]
}

/** As the lane's row has it. */
const lineOf = ({ eventSeq, attempt, tries, startedAtMs, attemptId }: BegunAttempt): string =>
  `${eventSeq} ${attempt} ${tries} ${startedAtMs} ${attemptId}`

const isRetry = ({ attempt }: BegunAttempt): boolean => attempt > 1

/** First attempts begin in the order of their events. */
const startedSeq = (fresh: readonly BegunAttempt[]): number => fresh.findLast((one) => !isRetry(one))?.eventSeq ?? 0

/**
 * Writes attempts down before their requests leave, and says which lanes may go ahead: those whose lease is still the one
 * shown and whose webhook still exists. The lanes stay locked to the end of the statement, and deletion takes the same
 * lock. Saying it twice, after a connection was lost in the middle, changes nothing.
 */
export const beginAttempts = async (db: Database, beginnings: readonly Beginning[]): Promise<Set<number>> => {
  const retries = beginnings.flatMap(({ fresh }) => fresh.filter(isRetry))
  // Statements that lock several lanes lock them in the order of their ids.
  const lanes = beginnings.toSorted((a, b) => a.laneId - b.laneId)
  const rows = await db<{ id: string }[]>`
    with input as materialized (
      select * from unnest(
        ${plainArray(lanes.map((lane) => lane.laneId))}::bigint[], ${plainArray(lanes.map((lane) => lane.token))}::bigint[],
        ${plainArray(lanes.map((lane) => lane.no))}::bigint[],
        ${plainArray(lanes.map((lane) => startedSeq(lane.fresh)))}::bigint[],
        ${textArray(
          db,
          lanes.map((lane) => lane.unsettled.map(lineOf).join('\n')),
        )}
      ) as i (lane_id, token, no, started_seq, begun)
    ), fence as materialized (
      select i.*, l.org_id from input i
      cross join lateral (
        select l.org_id from keyhook.lanes l
        -- By the id alone, which no two lanes share: a planner without statistics would otherwise go through all lanes of
        -- the organization for each of them.
        where l.id = i.lane_id and l.lease_token = i.token and l.begun_no <= i.no
          -- A lane that was given back has the same token until somebody takes it: what is begun there, nobody would find.
          and l.ended_at is null and l.lease_owner is not null
        for no key update of l
      ) l
    ) ${retries.length === 0 ? db`` : takenUp(db, retries)}
    update keyhook.lanes l
    set cursor_seq = greatest(l.cursor_seq, f.started_seq), begun = f.begun, begun_no = f.no
    from fence f where l.id = f.lane_id
    returning l.id`
  return new Set(rows.map((row) => Number(row.id)))
}

/** A retry that begins waits no longer. One that waits because this very attempt has failed meanwhile goes on waiting. */
const takenUp = (db: Database, retries: readonly BegunAttempt[]) => db`
  , taken_up as (
    delete from keyhook.retries r
    using unnest(
      ${retries.map((one) => one.laneId)}::bigint[], ${retries.map((one) => one.eventSeq)}::bigint[],
      ${retries.map((one) => one.attempt)}::int[]
    ) as t (lane_id, event_seq, attempt)
    join fence f on f.lane_id = t.lane_id
    where r.lane_id = t.lane_id and r.event_seq = t.event_seq and r.org_id = f.org_id and r.attempt < t.attempt
  )`

export type Leftover = DueDelivery & { attemptId: string; startedAtMs: number }

/** Attempts that an earlier holder of these lanes began and never settled. */
export const findLeftovers = async (
  db: Database,
  lanes: readonly { laneId: number; orgId: OrgId }[],
): Promise<Leftover[]> => {
  const rows = await db<LeftoverRow[]>`
    select s.lane_id, s.event_seq, s.attempt, s.try, s.id as attempt_id, e.id, e.type, e.body,
      (extract(epoch from s.started_at) * 1000)::bigint as started_ms,
      (extract(epoch from e.created_at) * 1000)::bigint as published_ms
    from unnest(
      ${lanes.map((lane) => lane.laneId)}::bigint[], ${lanes.map((lane) => lane.orgId)}::text[]
    ) as h (lane_id, org_id)
    join keyhook.sending s on s.lane_id = h.lane_id and s.org_id = h.org_id
    join keyhook.events e on e.org_id = s.org_id and e.seq = s.event_seq`
  return rows.map((row) => {
    const place = {
      laneId: Number(row.lane_id),
      eventSeq: Number(row.event_seq),
      attempts: row.attempt,
      tries: row.try,
    }
    return {
      ...deliveryOf(place, eventOf(row)),
      attemptId: row.attempt_id,
      startedAtMs: Number(row.started_ms),
    }
  })
}

type LeftoverRow = Omit<EventRow, 'org_id' | 'seq'> & {
  lane_id: string
  event_seq: string
  attempt: number
  try: number
  attempt_id: string
  started_ms: string
}
