import type { Database, Executor, Transaction } from '../db/database.ts'
import type { Id, OrgId, WebhookId } from '../lib/ids.ts'
import { requestRedelivery } from './lane-sql.ts'

export type RedeliveryOutcome = 'requested' | 'in_flight' | 'not_found'

/**
 * Makes the delivery of that attempt due now, with its whole schedule ahead. The lane is locked first, as dispatchers do: nothing
 * begins between the look at the delivery and the write, and the two cannot deadlock.
 */
export const redeliver = async (
  tx: Transaction,
  orgId: OrgId,
  webhookId: WebhookId,
  attemptId: string,
): Promise<RedeliveryOutcome> => {
  const [attempt] = await tx<{ lane_id: string; event_seq: string }[]>`
    select w.lane_id, a.event_seq
    from keyhook.webhooks w
    cross join lateral (
      select event_seq from keyhook.attempts where lane_id = w.lane_id and id = ${attemptId}
      union all
      select event_seq from keyhook.in_flight where lane_id = w.lane_id and id = ${attemptId}
    ) a
    where w.org_id = ${orgId} and w.id = ${webhookId} and w.deleted_at is null
    limit 1 for share of w`
  if (attempt === undefined) return 'not_found'
  const laneId = Number(attempt.lane_id)
  await requestRedelivery(tx, laneId)
  const requested = await tx`
    insert into keyhook.retries (lane_id, event_seq, org_id, due_at, attempt, try, redelivered)
    select ${laneId}, ${attempt.event_seq}, ${orgId}, now(), max(a.attempt), 0, true
    from keyhook.attempts a where a.lane_id = ${laneId} and a.event_seq = ${attempt.event_seq}
    having not exists (
      select from keyhook.in_flight f where f.lane_id = ${laneId} and f.event_seq = ${attempt.event_seq}
    )
    on conflict (lane_id, event_seq) do update set due_at = now(), try = 0, redelivered = true`
  return requested.count === 1 ? 'requested' : 'in_flight'
}

/** True if it exists; it stays so until the transaction ends. */
export const lockWebhookRow = async (tx: Transaction, orgId: OrgId, id: WebhookId): Promise<boolean> => {
  const rows = await tx`
    select 1 from keyhook.webhooks where org_id = ${orgId} and id = ${id} and deleted_at is null for share`
  return rows.count > 0
}

/** Events of one webhook from `since` on and before `until`. */
type TimeRange = { orgId: OrgId; laneId: number; since: Date; until: Date }

export type NewRecovery = TimeRange & { id: Id<'rcv'> }

/** The numbers of its events are looked up once: in a long history that takes as long as a step. */
export const insertRecovery = async (tx: Transaction, recovery: NewRecovery): Promise<void> => {
  const { orgId, id, laneId, since, until } = recovery
  const { afterSeq, lastSeq } = await findSequenceRange(tx, recovery)
  await tx`
    insert into keyhook.recoveries (org_id, id, lane_id, since, until, cursor_seq, last_seq)
    values (${orgId}, ${id}, ${laneId}, ${since}, ${until}, ${afterSeq}, ${lastSeq})`
}

export type RecoveryRow = {
  id: Id<'rcv'>
  since: Date
  until: Date
  redelivered: string
  created_at: Date
  finished_at: Date | null
}

export const findRecovery = async (db: Database, orgId: OrgId, webhookId: WebhookId, id: string) => {
  const [row] = await db<RecoveryRow[]>`
    select r.id, r.since, r.until, r.redelivered, r.created_at, r.finished_at
    from keyhook.recoveries r join keyhook.webhooks w on w.org_id = r.org_id and w.lane_id = r.lane_id
    where r.org_id = ${orgId} and r.id = ${id} and w.id = ${webhookId} and w.deleted_at is null`
  return row ?? null
}

export const countRecoverable = async (db: Database, range: TimeRange): Promise<number> => {
  const { afterSeq, lastSeq } = await findSequenceRange(db, range)
  const all = { afterSeq, lastSeq, deliveriesMax: null, passedOver: [] }
  const [row] = await db<{ count: number }[]>`
    select count(*)::int as count from (${examine(db, range, all)}) d where d.missed and not d.in_flight`
  return row!.count
}

/** By the index on time (`offset 0`): given the choice, the planner reads all events from the first one on. */
const findSequenceRange = async (db: Executor, { orgId, since, until }: TimeRange) => {
  const [row] = await db<{ first_seq: string | null; last_seq: string | null }[]>`
    select min(seq) as first_seq, max(seq) as last_seq from (
      select seq from keyhook.events where org_id = ${orgId} and created_at >= ${since} and created_at < ${until} offset 0
    ) e`
  const { first_seq, last_seq } = row!
  return { afterSeq: Number(first_seq ?? 1) - 1, lastSeq: Number(last_seq ?? 0) }
}

type Examined = { event_seq: string; attempt: number; in_flight: boolean; missed: boolean }
type Chunk = { afterSeq: number; lastSeq: number; deliveriesMax: number | null; passedOver: readonly string[] }

/**
 * The next deliveries of a lane that were begun, and those passed over earlier. `missed`: in the time range, tried, and never
 * successful. A delivery without any trace may have succeeded: its attempts were deleted, and its event is kept for another webhook.
 *
 * One index look-up each per delivery (`lateral`): without fresh statistics the planner would compare all with all.
 */
const examine = (db: Executor, { orgId, laneId, since, until }: TimeRange, chunk: Chunk) => db<Examined[]>`
  select d.event_seq, coalesce(a.attempt, 0) as attempt, f.found as in_flight,
    (
      e.created_at >= ${since} and e.created_at < ${until} and not a.succeeded
      and (a.attempt is not null or r.found or f.found)
    ) is true as missed
  from (
    (
      select event_seq from keyhook.deliveries
      where lane_id = ${laneId} and event_seq > ${chunk.afterSeq} and event_seq <= ${chunk.lastSeq}
        and event_seq <= (select cursor_seq from keyhook.lanes where id = ${laneId} and ended_at is null)
      order by event_seq limit ${chunk.deliveriesMax}
    )
    union all
    select unnest(${chunk.passedOver}::bigint[])
  ) d
  left join lateral (
    select created_at from keyhook.events where org_id = ${orgId} and seq = d.event_seq offset 0
  ) e on true
  cross join lateral (
    select max(attempt) as attempt, coalesce(bool_or(status = 'succeeded'), false) as succeeded
    from keyhook.attempts where lane_id = ${laneId} and event_seq = d.event_seq
  ) a
  cross join lateral (
    select exists (select from keyhook.in_flight where lane_id = ${laneId} and event_seq = d.event_seq) as found offset 0
  ) f
  cross join lateral (
    select exists (select from keyhook.retries where lane_id = ${laneId} and event_seq = d.event_seq) as found offset 0
  ) r`

const stepDeliveries = 500
/** How long to wait before looking again at deliveries whose attempt was in flight. */
const waitMs = 500

/**
 * One step of the recovery whose turn it is, in one transaction: examines the next deliveries, makes the missed ones due and
 * remembers how far it came. A delivery with an attempt in flight is passed over and examined again until that attempt has ended.
 * Returns the organization, or null when there was no step to take.
 */
export const stepRecovery = async (tx: Transaction): Promise<OrgId | null> => {
  const job = await takeTurn(tx)
  if (job === null) return null
  const { org_id: orgId, id, since, until, passed_over: passedOver } = job
  const laneId = Number(job.lane_id)
  const chunk = {
    afterSeq: Number(job.cursor_seq),
    lastSeq: Number(job.last_seq),
    deliveriesMax: stepDeliveries,
    passedOver,
  }
  // Locks the lane, so that no attempt begins between the examination and the write.
  const isOpen = await requestRedelivery(tx, laneId)
  const examined = isOpen ? await examine(tx, { orgId, laneId, since, until }, chunk) : []
  const missed = examined.filter((one) => one.missed)
  const inFlight = missed.filter((one) => one.in_flight).map((one) => one.event_seq)
  const due = missed.filter((one) => !one.in_flight)
  await tx`
    insert into keyhook.retries (lane_id, event_seq, org_id, due_at, attempt, try, redelivered)
    select ${laneId}, d.event_seq, ${orgId}, now(), d.attempt, 0, true
    from unnest(${due.map((one) => one.event_seq)}::bigint[], ${due.map((one) => one.attempt)}::int[]) as d (event_seq, attempt)
    on conflict (lane_id, event_seq) do update set due_at = now(), try = 0, redelivered = true`
  const isAtEnd = examined.length - passedOver.length < stepDeliveries
  const examinedUpTo = examined.reduce((seq, one) => Math.max(seq, Number(one.event_seq)), chunk.afterSeq)
  await tx`
    update keyhook.recoveries
    set cursor_seq = ${examinedUpTo}, redelivered = redelivered + ${due.length}, stepped_at = now(),
      looked_through = ${isAtEnd}, passed_over = ${inFlight}::bigint[],
      finished_at = case when ${isAtEnd && inFlight.length === 0} then now() end
    where org_id = ${orgId} and id = ${id}`
  return orgId
}

type Job = {
  org_id: OrgId
  id: string
  lane_id: string
  since: Date
  until: Date
  cursor_seq: string
  last_seq: string
  passed_over: string[]
}

/**
 * The organization whose last step was longest ago, and of its recoveries the one whose last step was. A `stepped_at` in the future
 * was written while the clock was ahead.
 */
const takeTurn = async (tx: Transaction): Promise<Job | null> => {
  const [job] = await tx<Job[]>`
    with waiting as materialized (
      select o.org_id, (select max(r.stepped_at) from keyhook.recoveries r where r.org_id = o.org_id) as last_turn
      from (select distinct org_id from keyhook.recoveries where finished_at is null) o
    )
    select r.org_id, r.id, r.lane_id, r.since, r.until, r.cursor_seq, r.last_seq, r.passed_over
    from waiting w join keyhook.recoveries r on r.org_id = w.org_id and r.finished_at is null
    where not r.looked_through or r.stepped_at < now() - ${waitMs} * interval '1 millisecond' or r.stepped_at > now()
    order by w.last_turn nulls first, r.stepped_at nulls first, r.id limit 1 for update of r skip locked`
  return job ?? null
}
