import type { PublishingTransaction } from '../db/publishing-transaction.ts'
import { publish } from '../delivery/publish.ts'
import type { OrgId } from '../lib/ids.ts'
import { moveDatabase } from './database.ts'
import { type LockedDatabase, markDatabaseGivenUp } from './sql.ts'

/**
 * Marks a database as failed and publishes its event, in one transaction. One that has an outcome already stays as it is. The row
 * is locked by the caller, who has to check first that the database is still on its node.
 */
export async function failDatabase(
  tx: PublishingTransaction,
  orgId: OrgId,
  { id, name, status }: LockedDatabase,
  reason: string,
): Promise<void> {
  const next = moveDatabase(status, 'give_up')
  if (next === null) return
  await markDatabaseGivenUp(tx, orgId, id, next, reason)
  await publish(tx, { orgId, type: 'database.failed', data: { database_id: id, name, reason } })
}
