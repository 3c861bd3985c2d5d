import type { Database, Transaction } from '../db/database.ts'
import type { OrgId, UserId, WebhookId } from '../kernel/ids.ts'
import type { Sealed } from '../kernel/master-keys.ts'
import { endLane } from './delivery/lane-requests.ts'
import type { PageRequest } from './page.ts'

export type NewWebhook = {
  id: WebhookId
  url: string
  eventTypes: readonly string[]
  secret: Sealed
  createdBy: UserId
}

export type WebhookRow = { id: WebhookId; url: string; event_types: string[]; created_at: Date }

/** Inserts unless the organization already has `webhooksMax`. Call it with the organization locked. */
export const insertWebhook = async (
  tx: Transaction,
  orgId: OrgId,
  webhook: NewWebhook,
  webhooksMax: number,
): Promise<WebhookRow | null> => {
  // The lane is created in the same statement: a webhook without one would miss events.
  const [row] = await tx<WebhookRow[]>`
    with made as (
      insert into keyhook.webhooks (org_id, id, url, event_types, secret_key_id, secret_box, created_by)
      select ${orgId}, ${webhook.id}, ${webhook.url}, ${[...webhook.eventTypes]}::text[],
        ${webhook.secret.keyId}, ${webhook.secret.box}, ${webhook.createdBy}
      where ${webhooksMax} > (
        select count(*) from (
          select from keyhook.webhooks where org_id = ${orgId} and deleted_at is null limit ${webhooksMax}
        ) w
      )
      returning id, url, event_types, created_at, lane_id
    ), lane as (
      insert into keyhook.lanes (id, org_id, webhook_id) select lane_id, ${orgId}, id from made
    )
    select id, url, event_types, created_at from made`
  return row ?? null
}

export const listWebhooks = (db: Database, orgId: OrgId, { before, limit }: PageRequest) => db<WebhookRow[]>`
  select id, url, event_types, created_at
  from keyhook.webhooks
  where org_id = ${orgId} and deleted_at is null and (${before}::text is null or id < ${before})
  order by id desc
  limit ${limit}`

/** True if it exists; it stays so until the transaction ends. */
export const keepWebhook = async (tx: Transaction, orgId: OrgId, id: WebhookId): Promise<boolean> => {
  const rows = await tx`
    select 1 from keyhook.webhooks where org_id = ${orgId} and id = ${id} and deleted_at is null for share`
  return rows.count > 0
}

/** Its secrets are erased: a deleted webhook cannot sign again. */
export const deleteWebhook = async (tx: Transaction, orgId: OrgId, id: WebhookId): Promise<boolean> => {
  const deleted = await tx`
    update keyhook.webhooks set deleted_at = clock_timestamp(), secret_box = null, secret_key_id = null,
      old_box = null, old_key_id = null, rotated_at = null, overlap_until = null
    where org_id = ${orgId} and id = ${id} and deleted_at is null`
  if (deleted.count === 0) return false
  await endLane(tx, orgId, id)
  return true
}
