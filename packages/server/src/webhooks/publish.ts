import { eventBody, type NewEvent } from '../domain/events.ts'
import { type Id, newId, type OrgId, type WebhookId } from '../kernel/ids.ts'
import { activeTraceparent, inSpan } from '../kernel/tracing.ts'
import type { PublishingTransaction } from '../store/publishing-transaction.ts'
import { publishEvents, publishSampleEvent } from './sql/publish.ts'

/**
 * Writes the event and one delivery per subscribed webhook in the transaction that changes the state it reports. The next
 * publisher of the organization waits until this transaction ends, so publish last.
 */
export async function publish(tx: PublishingTransaction, { orgId, type, data }: NewEvent): Promise<Id<'evt'>> {
  const id = newId('evt')
  const body = eventBody({ id, type, at: new Date(), data })
  await inSpan(`publish ${type}`, { kind: 'producer', attributes: { 'keyhook.event.id': id } }, () =>
    publishEvents(tx, orgId, [{ id, type, body, traceparent: activeTraceparent() }]),
  )
  tx.hintAfterCommit(orgId)
  return id
}

/** A test event for one webhook. The signed body marks it, so that no receiver mistakes it for a real one. */
export async function publishSample(
  tx: PublishingTransaction,
  { orgId, webhookId }: { orgId: OrgId; webhookId: WebhookId },
  { type, data }: { type: string; data: object },
): Promise<Id<'evt'>> {
  const id = newId('evt')
  // Last: the example of a declared type may have a field of this name.
  const body = eventBody({ id, type, at: new Date(), data: { ...data, test: true } })
  await publishSampleEvent(tx, orgId, webhookId, { id, type, body, traceparent: activeTraceparent() })
  tx.hintAfterCommit(orgId)
  return id
}
