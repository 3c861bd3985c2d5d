import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Database, Transaction } from '../db/database.ts'
import { hasAttemptInFlight } from '../delivery/history-sql.ts'
import { notFound } from '../lib/faults.ts'
import type { OrgId, WebhookId } from '../lib/ids.ts'
import { lockWebhook, type WebhookFields } from './sql.ts'

/** In the format of Standard Webhooks. The specified signature uses the whole text as its key, prefix included. */
export const mintWebhookSecret = (): string => `whsec_${randomBytes(32).toString('base64')}`

/** How long a pause lasts, and at most. Events of a paused webhook wait however long, so the limit is for their receivers. */
export const pauseMsDefault = 7 * 86_400_000

/** How long two secrets are valid: at most and before a switch, and after it. */
export const overlapSecondsMax = 30 * 86_400
export const afterSwitchSecondsDefault = 86_400

export const rateLimitMin = 0.1
export const rateLimitMax = 1_000

/** It stays as it is until the transaction ends. */
export async function lockExisting(tx: Transaction, orgId: OrgId, id: WebhookId): Promise<WebhookFields> {
  const webhook = await lockWebhook(tx, orgId, id)
  if (webhook === null) throw notFound(`${id} is not in ${orgId}`)
  return webhook
}

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
