import { type Database, isLockTimeout } from '../../db/database.ts'
import type { OrgId } from '../../kernel/ids.ts'
import { plainArray, textArray } from './arrays.ts'
import { type DueDelivery, deliveryOf, type EventRow, eventsOf } from './due.ts'
import { boundedWait, orPassOver, type WhenLocked } from './lane-locks.ts'

/** `attempt` counts every attempt of the delivery, `tries` those of the running schedule before this one. */
export type BegunAttempt = {
  laneId: number
  token: number
  eventSeq: number
  attempt: number
  tries: number
  attemptId: string
  startedAtMs: number
  /** Of its lease, the beginning that it was written down with; 0 if that was of an earlier lease. */
  begunNo: number
  /** As the lane's row has it: made once, though it is written again with every beginning until it is settled. */
  line: string | null
}

/**
 * `no` grows with every beginning of a lease. `fresh`: what begins now. `unsettled`: all that the lane has on its way, `fresh`
 * included: this is what takes the place of what stood there before. `surmised`: the last so many of the first attempts in `fresh`
 * were announced and not read. They begin if there is nothing else between this event and the last of them.
 */
export type Beginning = {
  laneId: number
  token: number
  no: number
  fresh: readonly BegunAttempt[]
  unsettled: readonly BegunAttempt[]
  surmised: { afterSeq: number; count: number } | null
}

function lineOf(begun: BegunAttempt): string {
  begun.line ??= `${begun.eventSeq} ${begun.attempt} ${begun.tries} ${begun.startedAtMs} ${begun.attemptId}`
  return begun.line
}

const isRetry = ({ attempt }: BegunAttempt): boolean => attempt > 1

/** First attempts begin in the order of their events. */
const startedSeq = (fresh: readonly BegunAttempt[]): number => fresh.findLast((one) => !isRetry(one))?.eventSeq ?? 0

/**
 * Lanes that may go ahead, and of the retries that begin there (by their events), how many tries each had before. In the others
 * nothing has begun. `locked`: it was passed over. `gap`: something is missing before what was surmised.
 */
export type MayGo = ReadonlyMap<number, Outcome>
type Outcome = ReadonlyMap<number, number> | 'locked' | 'gap'

const noRetries: ReadonlyMap<number, number> = new Map()

/**
 * Writes attempts down before their requests leave, and says which lanes may go ahead: those whose lease is still the one
 * shown and whose webhook still exists. The lanes stay locked to the end of the statement, and deletion takes the same
 * lock. Saying it twice, after a connection was lost in the middle, changes nothing.
 */
export const beginAttempts = async (
  db: Database,
  beginnings: readonly Beginning[],
  leaseMs: number,
  whenLocked: WhenLocked = 'wait',
): Promise<MayGo> => {
  const mayGo = await begin(db, beginnings, leaseMs, 'pass_over')
  const others = beginnings.filter(({ laneId }) => !mayGo.has(laneId))
  // Mostly there are none: to bound the wait in the first place would cost a tenth of the statement.
  if (others.length === 0) return mayGo
  const gaps = await findGaps(db, others)
  const lostOrLocked = others.filter(({ laneId }) => !gaps.has(laneId))
  return new Map([...mayGo, ...gaps, ...(await beginLocked(db, lostOrLocked, leaseMs, whenLocked))])
}

async function beginLocked(
  db: Database,
  others: readonly Beginning[],
  leaseMs: number,
  whenLocked: WhenLocked,
): Promise<MayGo> {
  if (others.length === 0) return new Map()
  if (whenLocked === 'pass_over') return passedOver(db, others)
  try {
    return await begin(db, others, leaseMs, 'wait')
  } catch (error) {
    if (isLockTimeout(error)) return passedOver(db, others)
    throw error
  }
}

const begin = async (db: Database, beginnings: readonly Beginning[], leaseMs: number, whenLocked: WhenLocked) => {
  const retries = beginnings.flatMap(({ fresh }) => fresh.filter(isRetry))
  // Statements that lock several lanes lock them in the order of their ids.
  const lanes = beginnings.toSorted((a, b) => a.laneId - b.laneId)
  const isSurmised = lanes.some(({ surmised }) => surmised !== null)
  const rows = await db<BegunRow[]>`
    with input as materialized (
      select * from unnest(
        ${plainArray(lanes.map((lane) => lane.laneId))}::bigint[], ${plainArray(lanes.map((lane) => lane.token))}::bigint[],
        ${plainArray(lanes.map((lane) => lane.no))}::bigint[],
        ${plainArray(lanes.map((lane) => startedSeq(lane.fresh)))}::bigint[],
        ${textArray(
          db,
          lanes.map((lane) => lane.unsettled.map(lineOf).join('\n')),
        )}
        ${isSurmised ? db`, ${surmisedColumns(db, lanes)}` : db``}
      ) as i (lane_id, token, no, started_seq, begun ${isSurmised ? db`, after_seq, surmised` : db``})
      ${whenLocked === 'wait' ? db`where (select ${boundedWait(db)}) is not null` : db``}
    ), fence as materialized (
      select i.*, l.org_id from input i
      cross join lateral (
        select l.org_id from keyhook.lanes l
        -- By the id alone, which no two lanes share: a planner without statistics would otherwise go through all lanes of
        -- the organization for each of them.
        where l.id = i.lane_id and l.lease_token = i.token and l.begun_no <= i.no
          -- What its holder remembers may never have been, for another server (see lanes.ts).
          and l.lease_server = pg_postmaster_start_time()
          -- A lane that was given back has the same token until somebody takes it: what is begun there, nobody would find.
          and l.ended_at is null and l.lease_owner is not null
        for no key update of l ${orPassOver(db, whenLocked)}
      ) l
      ${isSurmised ? db`where ${hasNoGap(db)}` : db``}
    ) ${retries.length === 0 ? begun(db, leaseMs) : begunWithRetries(db, leaseMs, retries)}`
  const mayGo = new Map<number, ReadonlyMap<number, number>>()
  for (const { id, event_seq, try: tries } of rows) {
    const laneId = Number(id)
    const before = mayGo.get(laneId) ?? noRetries
    mayGo.set(laneId, event_seq === null ? before : new Map(before).set(Number(event_seq), tries))
  }
  return mayGo
}

const surmisedColumns = (db: Database, lanes: readonly Beginning[]) => db`
  ${plainArray(lanes.map(({ surmised }) => surmised?.afterSeq ?? null))}::bigint[],
  ${plainArray(lanes.map(({ surmised }) => surmised?.count ?? null))}::int[]`

/** What was announced follows on what the lane has had: by the how-manieth of all that came after that it is. */
const hasNoGap = (db: Database) => db`(
  i.surmised is null or i.started_seq = (
    select d.event_seq from keyhook.deliveries d where d.lane_id = i.lane_id and d.event_seq > i.after_seq
    order by d.event_seq offset i.surmised - 1 limit 1
  )
)`

const findGaps = async (db: Database, lanes: readonly Beginning[]): Promise<Map<number, 'gap'>> => {
  const surmised = lanes.filter((lane) => lane.surmised !== null)
  if (surmised.length === 0) return new Map()
  const rows = await db<{ id: string }[]>`select l.id from ${stillHeld(db, surmised)} and ${hasNoGap(db)} is not true`
  return new Map(rows.map(({ id }) => [Number(id), 'gap']))
}

/** Those that would have begun: what else is there to keep them but a lock? Should it be gone by now, they begin the next time. */
const passedOver = async (db: Database, lanes: readonly Beginning[]): Promise<MayGo> => {
  const rows = await db<{ id: string }[]>`select l.id from ${stillHeld(db, lanes)}`
  return new Map(rows.map(({ id }) => [Number(id), 'locked']))
}

const stillHeld = (db: Database, lanes: readonly Beginning[]) => db`
  unnest(
    ${plainArray(lanes.map((lane) => lane.laneId))}::bigint[], ${plainArray(lanes.map((lane) => lane.token))}::bigint[],
    ${plainArray(lanes.map((lane) => lane.no))}::bigint[],
    ${plainArray(lanes.map((lane) => startedSeq(lane.fresh)))}::bigint[], ${surmisedColumns(db, lanes)}
  ) as i (lane_id, token, no, started_seq, after_seq, surmised)
  join keyhook.lanes l on l.id = i.lane_id and l.lease_token = i.token and l.begun_no <= i.no
  where l.ended_at is null and l.lease_owner is not null and l.lease_server = pg_postmaster_start_time()`

type BegunRow = { id: string } & ({ event_seq: null; try: null } | { event_seq: string; try: number })

/**
 * A beginning keeps the lease, too, once half of it is over: renewals pass over what is locked, and the lane of a busy webhook
 * is locked by its own beginnings most of the time. Nor need anybody tell the lane any more of what has begun in it.
 */
const begun = (db: Database, leaseMs: number) => db`
  update keyhook.lanes l
  set cursor_seq = greatest(l.cursor_seq, f.started_seq), head_seq = greatest(l.head_seq, f.started_seq),
    begun = f.begun, begun_no = f.no,
    due_at = case
      when l.due_at < now() + ${leaseMs / 2} * interval '1 millisecond' then now() + ${leaseMs} * interval '1 millisecond'
      else l.due_at
    end
  from fence f where l.id = f.lane_id
  returning l.id, null as event_seq, null as try`

/**
 * A retry that begins waits no longer. One that waits because this very attempt has failed meanwhile goes on waiting. The
 * number of tries is said as it stands here: a redelivery that was asked for since the retry was read has set it back.
 */
const begunWithRetries = (db: Database, leaseMs: number, retries: readonly BegunAttempt[]) => db`
  , taken_up as (
    delete from keyhook.retries r
    using unnest(
      ${retries.map((one) => one.laneId)}::bigint[], ${retries.map((one) => one.eventSeq)}::bigint[],
      ${retries.map((one) => one.attempt)}::int[]
    ) as t (lane_id, event_seq, attempt)
    join fence f on f.lane_id = t.lane_id
    where r.lane_id = t.lane_id and r.event_seq = t.event_seq and r.org_id = f.org_id and r.attempt < t.attempt
    returning r.lane_id, r.event_seq, r.try
  ), begun as (${begun(db, leaseMs)})
  select b.id, t.event_seq, t.try from begun b left join taken_up t on t.lane_id = b.id`

export type Leftover = DueDelivery & { attemptId: string; startedAtMs: number }

/** Attempts that an earlier holder of these lanes began and never settled. An event is read once, however many lanes it went to. */
export const findLeftovers = async (
  db: Database,
  lanes: readonly { laneId: number; orgId: OrgId }[],
): Promise<Leftover[]> => {
  const left = await db<LeftoverRow[]>`
    select s.org_id, s.lane_id, s.event_seq, s.attempt, s.try, s.id,
      (extract(epoch from s.started_at) * 1000)::bigint as started_ms
    from unnest(
      ${lanes.map((lane) => lane.laneId)}::bigint[], ${lanes.map((lane) => lane.orgId)}::text[]
    ) as h (lane_id, org_id)
    join keyhook.sending s on s.lane_id = h.lane_id and s.org_id = h.org_id`
  if (left.length === 0) return []
  const events = eventsOf(
    await db<EventRow[]>`
      select e.org_id, e.seq, e.id, e.type, (extract(epoch from e.created_at) * 1000)::bigint as published_ms, e.body
      from (
        select distinct * from unnest(
          ${left.map((one) => one.org_id)}::text[], ${left.map((one) => one.event_seq)}::bigint[]
        ) as c (org_id, seq)
      ) c join keyhook.events e using (org_id, seq)`,
  )
  return left.flatMap((row) => {
    const eventSeq = Number(row.event_seq)
    const event = events.get(row.org_id)?.get(eventSeq)
    if (event === undefined) return []
    const place = { laneId: Number(row.lane_id), eventSeq, attempts: row.attempt, tries: row.try }
    return [{ ...deliveryOf(place, event), attemptId: row.id, startedAtMs: Number(row.started_ms) }]
  })
}

type LeftoverRow = {
  org_id: OrgId
  lane_id: string
  event_seq: string
  attempt: number
  try: number
  id: string
  started_ms: string
}
