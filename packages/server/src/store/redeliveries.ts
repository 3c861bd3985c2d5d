import type { Id, OrgId, WebhookId } from '../kernel/ids.ts'
import type { Database, Executor, Transaction } from './database.ts'
import { askLane } from './lanes.ts'

/*
 * The lane is asked before its deliveries are looked at: dispatchers lock the lane first too, and so nothing begins between
 * the look and what is done about it. The other way round the two would also wait for each other.
 */

export type RedeliveryOutcome = 'asked' | 'on_its_way' | 'no_such_delivery'

/** Puts the delivery of that attempt back into its lane, due at once and with its schedule from the start. */
export const redeliver = async (
  tx: Transaction,
  orgId: OrgId,
  webhookId: WebhookId,
  attemptId: string,
): Promise<RedeliveryOutcome> => {
  const [known] = await tx<{ lane_id: string; event_seq: string }[]>`
    select a.lane_id, a.event_seq
    from keyhook.webhooks w
    cross join lateral (
      select lane_id, event_seq from keyhook.attempts where lane_id = w.lane_id and org_id = w.org_id and id = ${attemptId}
      union all
      select lane_id, event_seq from keyhook.sending where lane_id = w.lane_id and org_id = w.org_id and id = ${attemptId}
    ) a
    where w.org_id = ${orgId} and w.id = ${webhookId} and w.deleted_at is null
    limit 1 for share of w`
  if (known === undefined) return 'no_such_delivery'
  const laneId = Number(known.lane_id)
  await askLane(tx, orgId, laneId)
  const asked = await tx`
    insert into keyhook.retries (org_id, lane_id, event_seq, due_at, attempt, try)
    select ${orgId}, ${laneId}, ${known.event_seq}, now(), max(a.attempt), 0
    from keyhook.attempts a where a.lane_id = ${laneId} and a.event_seq = ${known.event_seq}
    having not exists (
      select 1 from keyhook.sending s
      where s.lane_id = ${laneId} and s.org_id = ${orgId} and s.event_seq = ${known.event_seq}
    )
    on conflict (lane_id, event_seq, org_id) do update set due_at = now(), try = 0`
  return asked.count === 1 ? 'asked' : 'on_its_way'
}

export type NewRecovery = { id: Id<'rcv'>; laneId: number; since: Date; until: Date }

export const insertRecovery = async (tx: Transaction, orgId: OrgId, recovery: NewRecovery): Promise<void> => {
  await tx`
    insert into keyhook.recoveries (org_id, id, lane_id, since, until)
    values (${orgId}, ${recovery.id}, ${recovery.laneId}, ${recovery.since}, ${recovery.until})`
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

/**
 * Deliveries of events from that time that were started, never succeeded, and are not on their way right now. Of one that
 * has left no trace nobody can say that it never succeeded: its attempts were old, and the event stays for another webhook.
 */
const neverSucceeded = (
  db: Executor,
  orgId: OrgId,
  laneId: number | string,
  since: Date,
  until: Date,
  afterSeq: number | string,
) => db`
  select d.event_seq
  from keyhook.events e
  join keyhook.deliveries d on d.org_id = e.org_id and d.event_seq = e.seq and d.lane_id = ${laneId}
  join keyhook.lanes l on l.id = d.lane_id and l.org_id = d.org_id and d.event_seq <= l.cursor_seq and l.ended_at is null
  where e.org_id = ${orgId} and e.created_at >= ${since} and e.created_at < ${until} and e.seq > ${afterSeq}
    and not exists (
      select 1 from keyhook.attempts a
      where a.lane_id = d.lane_id and a.event_seq = d.event_seq and a.status = 'succeeded'
    )
    and d.event_seq not in (select s.event_seq from keyhook.sending s where s.lane_id = ${laneId} and s.org_id = ${orgId})
    and (
      exists (select 1 from keyhook.attempts a where a.lane_id = d.lane_id and a.event_seq = d.event_seq)
      or exists (select 1 from keyhook.retries r where r.lane_id = d.lane_id and r.event_seq = d.event_seq)
    )`

export const countRecoverable = async (
  db: Database,
  orgId: OrgId,
  laneId: number,
  since: Date,
  until: Date,
): Promise<number> => {
  const [row] = await db<{ count: number }[]>`
    select count(*)::int as count from (${neverSucceeded(db, orgId, laneId, since, until, 0)}) found`
  return row?.count ?? 0
}

const recoveryStepDeliveries = 500

/**
 * One step of the oldest recovery that is not finished: puts the next deliveries back into their lane and remembers how
 * far it came, in one transaction. A step that is cut off by a crash has not happened. Says whether there was one.
 */
export const stepRecovery = async (tx: Transaction): Promise<boolean> => {
  const [job] = await tx<
    { org_id: OrgId; id: string; lane_id: string; since: Date; until: Date; cursor_seq: string }[]
  >`
    select org_id, id, lane_id, since, until, cursor_seq from keyhook.recoveries
    where finished_at is null order by id limit 1 for update skip locked`
  if (job === undefined) return false
  await askLane(tx, job.org_id, Number(job.lane_id))
  const [step] = await tx<{ looked: number; up_to: string | null; put: number }[]>`
    with found as materialized (
      ${neverSucceeded(tx, job.org_id, job.lane_id, job.since, job.until, job.cursor_seq)}
      order by d.event_seq limit ${recoveryStepDeliveries}
    ), put as (
      insert into keyhook.retries (org_id, lane_id, event_seq, due_at, attempt, try)
      select ${job.org_id}, ${job.lane_id}, f.event_seq, now(), coalesce((
        select max(a.attempt) from keyhook.attempts a where a.lane_id = ${job.lane_id} and a.event_seq = f.event_seq
      ), 0), 0
      from found f
      on conflict (lane_id, event_seq, org_id) do update set due_at = now(), try = 0
      returning 1
    )
    select count(*)::int as looked, max(event_seq) as up_to, (select count(*)::int from put) as put from found`
  // The end is where nothing more was found, not where less was put in line: a retry may have begun in this moment.
  await tx`
    update keyhook.recoveries
    set cursor_seq = ${step!.up_to ?? job.cursor_seq}, redelivered = redelivered + ${step!.put},
      finished_at = case when ${step!.looked < recoveryStepDeliveries} then clock_timestamp() end
    where org_id = ${job.org_id} and id = ${job.id}`
  return true
}
