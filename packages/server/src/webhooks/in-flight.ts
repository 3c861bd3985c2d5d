import { setTimeout as sleep } from 'node:timers/promises'
import type { Database } from '../db/database.ts'
import { hasAttemptInFlight } from '../delivery/history-sql.ts'
import type { OrgId, WebhookId } from '../lib/ids.ts'

const inFlightPollMs = 20
/** A delivery that has begun is sent sooner than this or not at all; most end within a few milliseconds. */
const inFlightWaitMsMax = 500

/**
 * After a webhook is deleted, paused or changed nothing begins as before, in any process, but a delivery that began earlier may not
 * have been sent yet. Waits for those, but not for a receiver that hangs.
 */
export async function waitForInFlightDeliveries(db: Database, orgId: OrgId, webhookId: WebhookId): Promise<void> {
  const until = performance.now() + inFlightWaitMsMax
  // The change is committed. When the database cannot answer, assume that there is one.
  const mayBeSending = () => hasAttemptInFlight(db, orgId, webhookId).catch(() => true)
  while ((await mayBeSending()) && performance.now() < until) await sleep(inFlightPollMs)
}
