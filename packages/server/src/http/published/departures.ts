import { setTimeout as sleep } from 'node:timers/promises'
import type { Database } from '../../db/database.ts'
import type { OrgId, WebhookId } from '../../kernel/ids.ts'
import { hasAttemptInFlight } from '../../store/delivery/history.ts'

const lookMs = 20
/** What has begun leaves sooner than that or not at all (webhooks/dispatching/leaving.ts); most are over in a few milliseconds. */
const waitMsMax = 500

/**
 * Waits until nothing is on its way to a webhook that has just been deleted, but not for a receiver that hangs. Nothing begins
 * any more, in any process; what had begun may not have left yet, and whoever deletes a webhook expects to hear the last of it.
 */
export async function untilNothingIsOnItsWay(db: Database, orgId: OrgId, webhookId: WebhookId): Promise<void> {
  const until = performance.now() + waitMsMax
  // The deletion has happened. While nobody can say what is on its way, something may be.
  const mayBe = () => hasAttemptInFlight(db, orgId, webhookId).catch(() => true)
  while ((await mayBe()) && performance.now() < until) await sleep(lookMs)
}
