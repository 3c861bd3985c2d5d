import type { OrgId, WebhookId } from '../kernel/ids.ts'
import type { Transaction } from './database.ts'

/**
 * Ends the lane of a deleted webhook. Starting an attempt takes the lock of the same row and looks for this mark, so
 * once this has committed nothing starts any more, in any process. What is in flight may still be settled; while the
 * lane is leased its due time stays, so that a crash in that moment is still found.
 */
export const endLane = async (tx: Transaction, orgId: OrgId, webhookId: WebhookId): Promise<void> => {
  await tx`
    with ended as (
      update keyhook.lanes
      set ended_at = clock_timestamp(), due_at = case when lease_owner is null then null else due_at end
      where org_id = ${orgId} and webhook_id = ${webhookId} and ended_at is null
      returning id
    )
    delete from keyhook.unsettled u using ended
    where u.org_id = ${orgId} and u.lane_id = ended.id and u.due_at > '-infinity'`
}
