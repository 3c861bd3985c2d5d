import type { Transaction } from '../db/database.ts'
import type { OrgId, WebhookId } from '../kernel/ids.ts'

export type WebhookSettings = { description: string | null; event_types: string[] }

/** Null for a webhook that does not exist or is deleted. Locked: no other change happens until the transaction ends. */
export const lockWebhook = async (tx: Transaction, orgId: OrgId, id: WebhookId): Promise<WebhookSettings | null> => {
  const [row] = await tx<WebhookSettings[]>`
    select description, event_types from keyhook.webhooks
    where org_id = ${orgId} and id = ${id} and deleted_at is null for no key update`
  return row ?? null
}

/** `typesChanged`: the event types differ from those before. Call it with the webhook locked. */
export const updateWebhook = async (
  tx: Transaction,
  orgId: OrgId,
  id: WebhookId,
  { description, event_types, typesChanged }: WebhookSettings & { typesChanged: boolean },
): Promise<void> => {
  await tx`
    update keyhook.webhooks
    set description = ${description}, event_types = ${event_types}::text[],
      types_since = case when ${typesChanged} then clock_timestamp() else types_since end
    where org_id = ${orgId} and id = ${id}`
}
