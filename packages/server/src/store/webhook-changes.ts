import type { Transaction } from '../db/database.ts'
import type { OrgId, WebhookId } from '../kernel/ids.ts'

/** What can be changed in a webhook. */
export type WebhookFields = {
  url: string
  event_types: string[]
  description: string | null
  rate_limit: number | null
}

/** Null for a webhook that does not exist or is deleted. Locked: no other change happens until the transaction ends. */
export const lockWebhook = async (tx: Transaction, orgId: OrgId, id: WebhookId): Promise<WebhookFields | null> => {
  const [row] = await tx<WebhookFields[]>`
    select url, event_types, description, rate_limit from keyhook.webhooks
    where org_id = ${orgId} and id = ${id} and deleted_at is null for no key update`
  return row ?? null
}

/**
 * Call it with the webhook locked. The new version goes to the lane too, whose row is locked for it: once this is committed, no
 * attempt begins with the old settings, in any process.
 */
export const updateWebhook = async (
  tx: Transaction,
  orgId: OrgId,
  id: WebhookId,
  before: WebhookFields,
  { url, event_types, description, rate_limit }: WebhookFields,
): Promise<void> => {
  const typesChanged = event_types.join() !== before.event_types.join()
  await tx`
    with changed as (
      update keyhook.webhooks
      set url = ${url}, event_types = ${event_types}::text[], description = ${description}, rate_limit = ${rate_limit},
        types_since = case when ${typesChanged} then clock_timestamp() else types_since end, version = version + 1
      where org_id = ${orgId} and id = ${id}
      returning lane_id, version
    ), kept as (
      insert into keyhook.earlier_urls (lane_id, until, url)
      select lane_id, clock_timestamp(), ${before.url} from changed where ${url !== before.url}
    )
    update keyhook.lanes l set version = c.version from changed c where l.id = c.lane_id`
}
