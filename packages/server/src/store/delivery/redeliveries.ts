import type { Transaction } from '../../db/database.ts'
import type { OrgId, WebhookId } from '../../kernel/ids.ts'
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
      select lane_id, event_seq from keyhook.in_flight where lane_id = w.lane_id and org_id = w.org_id and id = ${attemptId}
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
      select 1 from keyhook.in_flight s
      where s.lane_id = ${laneId} and s.org_id = ${orgId} and s.event_seq = ${known.event_seq}
    )
    on conflict (lane_id, event_seq, org_id) do update set due_at = now(), try = 0`
  return asked.count === 1 ? 'asked' : 'on_its_way'
}
