import type { EventType } from '../domain/event-types.ts'
import type { OrgId } from '../kernel/ids.ts'
import { plainArray } from './array-literal.ts'
import { type Database, isUniqueViolation } from './database.ts'

/** What a lane wants next: deliveries after the newest it has read, and retries whose time has come. */
export type ReadRequest = { laneId: number; orgId: OrgId; afterSeq: number; firstsMax: number; retriesMax: number }

export type DueDelivery = {
  laneId: number
  eventSeq: number
  eventId: string
  eventType: EventType
  body: Buffer
  publishedAtMs: number
  /** Attempts so far, and those since the schedule began. Zero and zero: it has never been tried. */
  attempts: number
  tries: number
}

type DueRow = {
  lane_id: string
  org_id: string
  event_seq: string
  attempt: number
  try: number
  id: string
  type: EventType
  published_ms: string
  body: string | null
}

/** Reads ahead for many lanes in one statement. A body that goes to many lanes crosses the wire once. */
export const readDue = async (db: Database, requests: readonly ReadRequest[]): Promise<DueDelivery[]> => {
  const rows = await db<DueRow[]>`
    with wanted as materialized (
      select * from unnest(
        ${requests.map((one) => one.laneId)}::bigint[], ${requests.map((one) => one.orgId)}::text[],
        ${requests.map((one) => one.afterSeq)}::bigint[], ${requests.map((one) => one.firstsMax)}::int[],
        ${requests.map((one) => one.retriesMax)}::int[]
      ) as w (lane_id, org_id, after_seq, firsts_max, retries_max)
    ), found as materialized (
      select w.lane_id, w.org_id, d.event_seq, 0 as attempt, 0 as try
      from wanted w cross join lateral (
        select d.event_seq from keyhook.deliveries d
        where d.lane_id = w.lane_id and d.event_seq > w.after_seq
        order by d.event_seq limit w.firsts_max
      ) d
      union all
      select w.lane_id, w.org_id, u.event_seq, u.attempt, u.try
      from wanted w cross join lateral (
        select u.event_seq, u.attempt, u.try from keyhook.unsettled u
        where u.lane_id = w.lane_id and u.due_at > '-infinity' and u.due_at <= now()
        order by u.due_at limit w.retries_max
      ) u
    )
    select f.lane_id, f.org_id, f.event_seq, f.attempt, f.try, e.id, e.type,
      (extract(epoch from e.created_at) * 1000)::bigint as published_ms,
      case when row_number() over (partition by f.org_id, f.event_seq) = 1 then e.body end as body
    from found f
    -- \`offset 0\`: one descent of the index for each, never a scan of all events.
    cross join lateral (
      select e.id, e.type, e.created_at, e.body from keyhook.events e
      where e.org_id = f.org_id and e.seq = f.event_seq
      offset 0
    ) e`
  return deliveriesOf(rows)
}

function deliveriesOf(rows: readonly DueRow[]): DueDelivery[] {
  const bodies = new Map<string, Buffer>()
  for (const row of rows) if (row.body !== null) bodies.set(`${row.org_id} ${row.event_seq}`, Buffer.from(row.body))
  const deliveries = rows.map((row) => ({
    laneId: Number(row.lane_id),
    eventSeq: Number(row.event_seq),
    eventId: row.id,
    eventType: row.type,
    body: bodies.get(`${row.org_id} ${row.event_seq}`)!,
    publishedAtMs: Number(row.published_ms),
    attempts: row.attempt,
    tries: row.try,
  }))
  return deliveries.sort((a, b) => a.eventSeq - b.eventSeq)
}

export type BegunAttempt = {
  laneId: number
  orgId: OrgId
  token: number
  eventSeq: number
  attempt: number
  tries: number
  attemptId: string
  startedAtMs: number
}

/**
 * Writes attempts down before their requests leave, and says which lanes may go ahead: those whose lease is still the one
 * shown and whose webhook still exists. The lanes stay locked to the end of the statement, and deletion takes the same
 * lock. Saying it twice, after a connection was lost in the middle, changes nothing.
 */
export const beginAttempts = async (db: Database, attempts: readonly BegunAttempt[]): Promise<Set<number>> => {
  const areFirsts = attempts.every((one) => one.attempt === 1)
  try {
    return await insertBegun(db, attempts, areFirsts ? db`` : inPlaceOfOld(db))
  } catch (error) {
    if (!areFirsts || !isUniqueViolation(error, 'unsettled_pkey')) throw error
    return insertBegun(db, attempts, inPlaceOfOld(db))
  }
}

/**
 * A retry takes the place of the row that waited for it. First attempts find a row only if they are said twice, and to
 * provide for it every time would cost PostgreSQL a fifth of the statement.
 */
const inPlaceOfOld = (db: Database) => db`
  on conflict (lane_id, event_seq, org_id) do update set
    due_at = excluded.due_at, lease_token = excluded.lease_token, attempt = excluded.attempt, try = excluded.try,
    attempt_id = excluded.attempt_id, started_at = excluded.started_at`

async function insertBegun(
  db: Database,
  attempts: readonly BegunAttempt[],
  onConflict: ReturnType<typeof inPlaceOfOld>,
): Promise<Set<number>> {
  const rows = await db<{ id: string }[]>`
    with input as materialized (
      select * from unnest(
        ${plainArray(attempts.map((one) => one.laneId))}::bigint[], ${plainArray(attempts.map((one) => one.orgId))}::text[],
        ${plainArray(attempts.map((one) => one.token))}::bigint[], ${plainArray(attempts.map((one) => one.eventSeq))}::bigint[],
        ${plainArray(attempts.map((one) => one.attempt))}::int[], ${plainArray(attempts.map((one) => one.tries))}::int[],
        ${plainArray(attempts.map((one) => one.attemptId))}::uuid[], ${plainArray(attempts.map((one) => one.startedAtMs))}::bigint[]
      ) as i (lane_id, org_id, token, event_seq, attempt, try, attempt_id, started_ms)
    ), fence as materialized (
      select l.id, l.org_id, i.started_seq
      from keyhook.lanes l
      join (
        select lane_id, org_id, token, max(event_seq) filter (where attempt = 1) as started_seq
        from input group by lane_id, org_id, token
      ) i on i.lane_id = l.id and i.org_id = l.org_id and i.token = l.lease_token
      -- A lane that was given back has the same token until somebody takes it: what is begun there, nobody would find.
      where l.ended_at is null and l.lease_owner is not null
      order by l.id for no key update of l
    ), moved as (
      update keyhook.lanes l set cursor_seq = f.started_seq
      from fence f where l.id = f.id and l.org_id = f.org_id and l.cursor_seq < f.started_seq
    ), begun as (
      insert into keyhook.unsettled
        (org_id, lane_id, event_seq, due_at, lease_token, attempt, try, attempt_id, started_at)
      select i.org_id, i.lane_id, i.event_seq, '-infinity', i.token, i.attempt, i.try, i.attempt_id,
        to_timestamp(i.started_ms / 1000.0)
      from input i join fence f on f.id = i.lane_id and f.org_id = i.org_id
      ${onConflict}
    )
    select id from fence`
  return new Set(rows.map((row) => Number(row.id)))
}

export type Leftover = DueDelivery & { attemptId: string; startedAtMs: number; token: number }

/** Attempts that an earlier holder of these lanes began and never settled. */
export const findLeftovers = async (
  db: Database,
  lanes: readonly { laneId: number; orgId: OrgId; token: number }[],
): Promise<Leftover[]> => {
  const rows = await db<(DueRow & { attempt_id: string; started_ms: string; lease_token: string })[]>`
    select u.lane_id, u.org_id, u.event_seq, u.attempt, u.try, u.attempt_id, u.lease_token, e.id, e.type, e.body,
      (extract(epoch from u.started_at) * 1000)::bigint as started_ms,
      (extract(epoch from e.created_at) * 1000)::bigint as published_ms
    from unnest(
      ${lanes.map((lane) => lane.laneId)}::bigint[], ${lanes.map((lane) => lane.orgId)}::text[],
      ${lanes.map((lane) => lane.token)}::bigint[]
    ) as h (lane_id, org_id, token)
    join keyhook.unsettled u
      on u.lane_id = h.lane_id and u.org_id = h.org_id and u.due_at = '-infinity' and u.lease_token < h.token
    join keyhook.events e on e.org_id = u.org_id and e.seq = u.event_seq`
  return rows.map((row) => ({
    laneId: Number(row.lane_id),
    eventSeq: Number(row.event_seq),
    eventId: row.id,
    eventType: row.type,
    body: Buffer.from(row.body!),
    publishedAtMs: Number(row.published_ms),
    attempts: row.attempt,
    tries: row.try,
    attemptId: row.attempt_id,
    startedAtMs: Number(row.started_ms),
    token: Number(row.lease_token),
  }))
}
