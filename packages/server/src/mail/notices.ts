import type { Transaction } from '../db/database.ts'
import type { DatabaseId, KeyId, OrgId, WebhookId } from '../lib/ids.ts'

type NamedKey = { id: KeyId; name: string; keyPrefix: string }
type NamedWebhook = { webhookId: WebhookId; url: string }
type NamedDatabase = { databaseId: DatabaseId; name: string }

/** What the owners of an organization are told by mail. */
export type Notice =
  | ({ kind: 'webhook.failing'; since: Date; error: string | null } & NamedWebhook)
  | ({ kind: 'webhook.suspended'; since: Date; waiting: number } & NamedWebhook)
  | ({ kind: 'webhook.recovered'; since: Date } & NamedWebhook)
  | ({ kind: 'key.expiring'; expiresAt: Date; daysLeft: number } & NamedKey)
  | ({ kind: 'key.leaked'; foundAt: string | null; alsoRevoked: number } & NamedKey)
  | ({ kind: 'backup.failed'; problem: string } & NamedDatabase)
  | ({ kind: 'database.nearly_full'; usedBytes: number; limitBytes: number } & NamedDatabase)

/** Queues a mail to each owner, in the transaction of the change. Nothing is queued without a mail server. */
export async function notifyOwners(_tx: Transaction, _orgId: OrgId, _notices: readonly Notice[]): Promise<void> {}
