import type { Transaction } from '../../db/database.ts'
import type { OrgId, WebhookId } from '../../kernel/ids.ts'

export const endLane = async (tx: Transaction, orgId: OrgId, webhookId: WebhookId): Promise<void> => {
  await tx`
    with ended as (
      update keyhook.lanes l
      set ended_at = now(), due_at = case
        when lease_owner is not null then due_at
        when exists (select from keyhook.in_flight f where f.lane_id = l.id) then now()
      end
      where org_id = ${orgId} and webhook_id = ${webhookId} and ended_at is null
      returning id
    )
    delete from keyhook.retries r using ended where r.lane_id = ended.id`
}

export const askLane = async (tx: Transaction, orgId: OrgId, laneId: number): Promise<void> => {
  await tx`
    update keyhook.lanes
    set redelivery_requests = redelivery_requests + 1, due_at = case when lease_owner is null then least(due_at, now()) else due_at end
    where id = ${laneId} and org_id = ${orgId} and ended_at is null`
}
