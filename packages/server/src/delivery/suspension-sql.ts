import type { Executor, Transaction } from '../db/database.ts'
import type { OrgId } from '../lib/ids.ts'
import { requestRedelivery } from './lane-sql.ts'

const lanesMax = 1_000

/**
 * Suspends webhooks that have failed for so many hours, or as many as their organization chose, and returns how many. Locked and
 * paused ones are left for the next time. A free lane that has work becomes due for the first probe.
 */
export const suspendFailing = async (
  db: Executor,
  { afterHours, ...times }: { afterHours: number; probeMs: number; suspensionMs: number },
): Promise<number> => {
  const suspended = await db`
    with failing as materialized (
      select l.id, l.org_id, l.webhook_id, l.failing_since from keyhook.lanes l
      join keyhook.organizations o on o.id = l.org_id
      where l.failing_since <= now() and l.suspended_until is null and l.ended_at is null
        and (l.paused_until > now()) is not true
        and coalesce(o.suspend_after_hours, ${afterHours}::float8) > 0
        and l.failing_since <= now() - coalesce(o.suspend_after_hours, ${afterHours}::float8) * interval '1 hour'
      order by l.id limit ${lanesMax} for no key update of l skip locked
    ), suspended as (
      update keyhook.lanes l
      set suspended_until = now() + ${times.suspensionMs} * interval '1 millisecond',
        probe_at = now() + ${times.probeMs} * interval '1 millisecond',
        due_at = case
          when l.lease_owner is null then least(l.due_at, now() + ${times.probeMs} * interval '1 millisecond')
          else l.due_at
        end
      from failing f where l.id = f.id
    )
    insert into keyhook.webhook_changes (org_id, webhook_id, kind, since)
    select f.org_id, f.webhook_id, 'suspended', f.failing_since from failing f`
  return suspended.count
}

/** Suspended lanes whose receiver has answered, so that their suspension ends. */
export const findAnswering = async (db: Executor): Promise<number[]> => {
  const rows = await db<{ id: string }[]>`
    select id from keyhook.lanes
    where failing_since <= now() and resumes and suspended_until is not null and ended_at is null
    order by failing_since limit ${lanesMax}`
  return rows.map(({ id }) => Number(id))
}

/**
 * Ends a suspension and writes down that it is to be told. In the same transaction everything that waited becomes due, so that
 * nothing newer is sent before; without `inOrder` it goes on by its schedule. Returns null where another node does it.
 */
export const endSuspension = async (tx: Transaction, laneId: number, inOrder: boolean): Promise<OrgId | null> => {
  const [lane] = await tx<{ org_id: OrgId }[]>`
    with lane as materialized (
      select id, org_id, webhook_id, failing_since from keyhook.lanes
      where id = ${laneId} and resumes and suspended_until is not null and ended_at is null
      for no key update skip locked
    ), ended as (
      update keyhook.lanes l
      set failures = 0, failing_since = null, suspended_until = null, probe_at = null, resumes = ${inOrder}
      from lane where l.id = lane.id
    )
    insert into keyhook.webhook_changes (org_id, webhook_id, kind, since)
    select org_id, webhook_id, 'recovered', failing_since from lane
    returning org_id`
  if (lane === undefined) return null
  await requestRedelivery(tx, laneId)
  if (inOrder) await makeRetriesDue(tx, laneId)
  return lane.org_id
}

/**
 * What waits for a later try is sent now, in the order of events; what was requested stays before it. All at once: between two parts
 * the next one, which is due by its schedule, would overtake. The lane is locked meanwhile (about 4 s for 100,000).
 */
const makeRetriesDue = async (tx: Transaction, laneId: number): Promise<void> => {
  await tx`
    update keyhook.retries r set due_at = now() - w.place * interval '1 microsecond'
    from (
      select event_seq, row_number() over (order by event_seq desc) as place from keyhook.retries
      where lane_id = ${laneId} and not redelivered and attempt >= 0
    ) w
    where r.lane_id = ${laneId} and r.event_seq = w.event_seq`
}
