import type { Database, Executor, Fragment, Transaction } from '../../db/database.ts'
import type { Id, OrgId, WebhookId } from '../../kernel/ids.ts'
import { askLane } from './lanes.ts'

/** Events from `since` on and before `until`, of one webhook. */
type Stretch = { orgId: OrgId; laneId: number; since: Date; until: Date }

export type NewRecovery = Stretch & { id: Id<'rcv'> }

/** The sequence of its events is looked up once: to find it in a long history takes as long as a step. */
export const insertRecovery = async (tx: Transaction, recovery: NewRecovery): Promise<void> => {
  const { orgId, id, laneId, since, until } = recovery
  await tx`
    insert into keyhook.recoveries (org_id, id, lane_id, since, until, cursor_seq, last_seq)
    select ${orgId}, ${id}, ${laneId}, ${since}, ${until}, coalesce(first_seq - 1, 0), coalesce(last_seq, 0)
    from (${boundsOf(tx, recovery)}) b`
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

export const countRecoverable = async (db: Database, stretch: Stretch): Promise<number> => {
  const [row] = await db<{ count: number }[]>`
    with bounds as materialized (${boundsOf(db, stretch)}), looked as materialized (
      select d.event_seq
      from bounds b join keyhook.deliveries d on d.event_seq between b.first_seq and b.last_seq
      where ${started(db, stretch)}
    ), ${onItsWay(db, stretch)}
    select count(*)::int as count from (${neverSucceeded(db, stretch)}) found where not sending`
  return row!.count
}

/** By the index on time (`offset 0`): left to choose, the planner goes through all events from the first one on. */
const boundsOf = (db: Executor, { orgId, since, until }: Stretch): Fragment => db`
  select min(seq) as first_seq, max(seq) as last_seq from (
    select seq from keyhook.events where org_id = ${orgId} and created_at >= ${since} and created_at < ${until} offset 0
  ) e`

/** Deliveries `d` of a webhook that is still there, of which the first attempt has begun. */
const started = (db: Executor, { orgId, laneId }: Stretch): Fragment => db`
  d.lane_id = ${laneId} and d.org_id = ${orgId} and d.event_seq <= (
    select l.cursor_seq from keyhook.lanes l where l.id = ${laneId} and l.org_id = ${orgId} and l.ended_at is null
  )`

/**
 * Which of the deliveries in `looked` never succeeded, and whether an attempt is on its way, by `on_its_way`. Of one that has left no trace nobody
 * can say so: its attempts were old, and the event stays for another webhook. One look at an index for each of them, whatever
 * the planner thinks of how many there are: without fresh statistics it would compare all with all.
 */
const neverSucceeded = (db: Executor, { orgId, laneId, since, until }: Stretch): Fragment => db`
  select d.event_seq, coalesce(a.attempt, 0) as attempt,
    d.event_seq in (select event_seq from on_its_way) as sending
  from looked d
  cross join lateral (
    select e.created_at from keyhook.events e where e.org_id = ${orgId} and e.seq = d.event_seq offset 0
  ) e
  cross join lateral (
    select max(a.attempt) as attempt, coalesce(bool_or(a.status = 'succeeded'), false) as succeeded
    from keyhook.attempts a where a.lane_id = ${laneId} and a.event_seq = d.event_seq
  ) a
  where e.created_at >= ${since} and e.created_at < ${until} and not a.succeeded and (
    a.attempt is not null
    or exists (select 1 from keyhook.retries r where r.lane_id = ${laneId} and r.event_seq = d.event_seq)
    or d.event_seq in (select event_seq from on_its_way)
  )`

const onItsWay = (db: Executor, { orgId, laneId }: Stretch): Fragment => db`
  on_its_way as materialized (select event_seq from keyhook.in_flight where lane_id = ${laneId} and org_id = ${orgId})`

const stepDeliveries = 500
/** How long to wait before looking again whether what was on its way has arrived. */
const waitMs = 500

/**
 * One step of the recovery whose turn it is: looks at the next deliveries, puts those that never succeeded back into their lane
 * and remembers how far it came, in one transaction. A step that is cut off by a crash has not happened. One with an attempt on
 * its way is passed over and looked at again until it is known what came of it. Says whether there was a step to take.
 */
export const stepRecovery = async (tx: Transaction): Promise<boolean> => {
  const job = await takeTurn(tx)
  if (job === null) return false
  const { org_id: orgId, id, since, until, cursor_seq, last_seq, passed_over } = job
  const laneId = Number(job.lane_id)
  const stretch = { orgId, laneId, since, until }
  // Before its deliveries are looked at: dispatchers lock the lane first, too.
  await askLane(tx, orgId, laneId)
  await tx`
    with fresh as materialized (
      select d.event_seq from keyhook.deliveries d
      where ${started(tx, stretch)} and d.event_seq > ${cursor_seq} and d.event_seq <= ${last_seq}
      order by d.event_seq limit ${stepDeliveries}
    ), looked as materialized (
      select event_seq from fresh
      union all
      select d.event_seq from keyhook.deliveries d where ${started(tx, stretch)} and d.event_seq = any (${passed_over}::bigint[])
    ), ${onItsWay(tx, stretch)}, found as materialized (${neverSucceeded(tx, stretch)}), put as (
      insert into keyhook.retries (org_id, lane_id, event_seq, due_at, attempt, try)
      select ${orgId}, ${laneId}, event_seq, now(), attempt, 0 from found where not sending
      on conflict (lane_id, event_seq, org_id) do update set due_at = now(), try = 0
      returning 1
    ), step as (
      select (select count(*) from fresh) < ${stepDeliveries} as at_end, (select max(event_seq) from fresh) as up_to,
        array(select event_seq from found where sending) as passed_over
    )
    update keyhook.recoveries r
    set cursor_seq = coalesce(s.up_to, r.cursor_seq), redelivered = r.redelivered + (select count(*) from put),
      stepped_at = clock_timestamp(), looked_through = s.at_end, passed_over = s.passed_over,
      finished_at = case when s.at_end and s.passed_over = '{}' then clock_timestamp() end
    from step s where r.org_id = ${orgId} and r.id = ${id}`
  return true
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

/** Of the organization whose last step is the longest ago, the recovery whose last step is. */
const takeTurn = async (tx: Transaction): Promise<Job | null> => {
  const [job] = await tx<Job[]>`
    with waiting as materialized (
      select o.org_id, (select max(r.stepped_at) from keyhook.recoveries r where r.org_id = o.org_id) as last_turn
      from (select distinct org_id from keyhook.recoveries where finished_at is null) o
    )
    select r.org_id, r.id, r.lane_id, r.since, r.until, r.cursor_seq, r.passed_over,
      -- Here and not in the step, where it would be no bound of the index: the step would go through all that came later.
      coalesce(r.last_seq, 9223372036854775807) as last_seq
    from waiting w join keyhook.recoveries r on r.org_id = w.org_id and r.finished_at is null
    where not r.looked_through or r.stepped_at < clock_timestamp() - ${waitMs} * interval '1 millisecond'
      -- The clock was ahead then, and has been set back.
      or r.stepped_at > clock_timestamp()
    order by w.last_turn nulls first, r.stepped_at nulls first, r.id limit 1 for update of r skip locked`
  return job ?? null
}
