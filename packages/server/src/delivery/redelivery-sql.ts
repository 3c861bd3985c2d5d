import type { Transaction } from '../db/database.ts'
import type { OrgId, WebhookId } from '../lib/ids.ts'

/**
 * Ends the lane of a deleted webhook. Beginning an attempt locks the same row and looks at `ended_at`: once this is committed, no
 * process begins anything. The lock is a statement of its own, so that the next one sees everything that was written before it.
 *
 * Attempts in flight may still be settled. While the lane is leased its due time stays, so that a dispatcher's crash is noticed.
 */
export const endLane = async (tx: Transaction, orgId: OrgId, webhookId: WebhookId): Promise<void> => {
  const [lane] = await tx<{ id: string }[]>`
    select id from keyhook.lanes
    where org_id = ${orgId} and webhook_id = ${webhookId} and ended_at is null
    for no key update`
  if (lane === undefined) return
  await tx`
    update keyhook.lanes l
    set ended_at = clock_timestamp(), due_at = case
      when l.lease_owner is not null then l.due_at
      else (select now() from keyhook.in_flight f where f.lane_id = l.id limit 1)
    end
    where l.id = ${lane.id}`
  await tx`delete from keyhook.retries where lane_id = ${lane.id}`
}

/**
 * Locks the lane, and has its holder look for retries that are due; a free lane becomes due itself. False when the webhook is
 * deleted. Call it before reading the lane's deliveries: while the lane is locked, no attempt of them begins.
 */
export const requestRedelivery = async (tx: Transaction, laneId: number): Promise<boolean> => {
  const requested = await tx`
    update keyhook.lanes
    set redelivery_requests = redelivery_requests + 1,
      due_at = case when lease_owner is null then least(due_at, greatest(now(), paused_until)) else due_at end
    where id = ${laneId} and ended_at is null`
  return requested.count > 0
}

/**
 * Nothing begins until then: beginning locks the same row and compares `paused_until`. The lock is a statement of its own, as above.
 * A free lane is due when the pause ends, or now where a dead process left attempts in flight. A holder keeps its lease until its
 * attempts have ended, and gives the lane back then.
 */
export const pauseLane = async (tx: Transaction, orgId: OrgId, webhookId: WebhookId, until: Date): Promise<void> => {
  await tx`select from keyhook.lanes where org_id = ${orgId} and webhook_id = ${webhookId} for no key update`
  await tx`
    update keyhook.lanes l
    set paused_until = ${until}, due_at = case
      when l.lease_owner is not null then l.due_at
      when exists (select from keyhook.in_flight f where f.lane_id = l.id) then now()
      else ${until}
    end
    where l.org_id = ${orgId} and l.webhook_id = ${webhookId}`
}

export const isLanePaused = async (tx: Transaction, orgId: OrgId, webhookId: WebhookId): Promise<boolean> => {
  const rows = await tx`
    select from keyhook.lanes where org_id = ${orgId} and webhook_id = ${webhookId} and paused_until > now()`
  return rows.count > 0
}

/** A free lane is due at once; a holder learns of it when it renews its lease. */
export const resumeLane = async (tx: Transaction, orgId: OrgId, webhookId: WebhookId): Promise<void> => {
  await tx`
    update keyhook.lanes
    set paused_until = null, due_at = case when lease_owner is null then now() else due_at end
    where org_id = ${orgId} and webhook_id = ${webhookId}`
}

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
    insert into keyhook.retries (lane_id, event_seq, org_id, due_at, attempt, try)
    select ${laneId}, ${attempt.event_seq}, ${orgId}, now(), max(a.attempt), 0
    from keyhook.attempts a where a.lane_id = ${laneId} and a.event_seq = ${attempt.event_seq}
    having not exists (
      select from keyhook.in_flight f where f.lane_id = ${laneId} and f.event_seq = ${attempt.event_seq}
    )
    on conflict (lane_id, event_seq) do update set due_at = now(), try = 0`
  return requested.count === 1 ? 'requested' : 'in_flight'
}

/** True if it exists; it stays so until the transaction ends. */
export const lockWebhookRow = async (tx: Transaction, orgId: OrgId, id: WebhookId): Promise<boolean> => {
  const rows = await tx`
    select 1 from keyhook.webhooks where org_id = ${orgId} and id = ${id} and deleted_at is null for share`
  return rows.count > 0
}
