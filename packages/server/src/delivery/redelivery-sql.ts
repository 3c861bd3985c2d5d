import type { Transaction } from '../db/database.ts'
import type { OrgId, WebhookId } from '../lib/ids.ts'
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
