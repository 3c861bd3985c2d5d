import type { Transaction } from '../db/database.ts'
import type { DatabaseId, KeyId, OrgId, WebhookId } from '../lib/ids.ts'
import { queueForOwners } from './queue-sql.ts'

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

/** Those that one mail describes; it counts the others. */
const describedMax = 20

/** As it is in the queue, where times are texts. */
export type QueuedNotices = { notices: Notice[]; more: number }

/** Queues a mail to each owner, in the transaction of the change. Nothing is queued without a mail server. */
export async function notifyOwners(tx: Transaction, orgId: OrgId, notices: readonly Notice[]): Promise<void> {
  if (notices.length === 0) return
  const queued: QueuedNotices = {
    notices: notices.slice(0, describedMax),
    more: Math.max(0, notices.length - describedMax),
  }
  await queueForOwners(tx, orgId, queued)
}
