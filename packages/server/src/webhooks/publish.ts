import { isDeepStrictEqual } from 'node:util'
import type { Actor } from '../domain/audit.ts'
import type { EventType } from '../domain/event-types.ts'
import { eventBody, type NewEvent, type ReportedEvent } from '../domain/events.ts'
import { parseExactly } from '../kernel/exact-json.ts'
import { Fault } from '../kernel/faults.ts'
import { type Id, newId, type OrgId, type WebhookId } from '../kernel/ids.ts'
import { recordAudit } from '../store/audit.ts'
import type { Transaction } from '../store/database.ts'
import { findEventsById, insertEvents, insertSample, type StoredEvent, takeSequence } from '../store/events.ts'

/**
 * Writes the event and one delivery per subscribed webhook in the caller's transaction: they are there if, and only if,
 * the change that they report is. The organization's next publisher waits until this transaction ends, so publish last.
 */
export async function publish(tx: Transaction, event: NewEvent): Promise<{ id: Id<'evt'> }> {
  const id = newId('evt')
  await write(tx, event.orgId, [stored({ ...event, id })])
  return { id }
}

/**
 * The same for events of another platform, which may name them itself: the same name twice is one event. What is new stands
 * in the audit log.
 */
export async function publishReported(
  tx: Transaction,
  orgId: OrgId,
  actor: Actor,
  events: readonly ReportedEvent[],
): Promise<string[]> {
  const named = events.map((event) => ({ ...event, id: event.id ?? newId('evt') }))
  const ids = events.flatMap((event) => event.id ?? [])
  // Taking no number still takes the lock: from here on nobody else can be writing the same id.
  if (ids.length > 0) await takeSequence(tx, orgId, 0)
  const known = new Map<string, { type: EventType; data: unknown }>()
  if (ids.length > 0) {
    for (const { id, type, body } of await findEventsById(tx, orgId, ids)) {
      known.set(id, { type, data: (parseExactly(body) as { data: unknown }).data })
    }
  }
  const fresh: StoredEvent[] = []
  for (const event of named) {
    const before = known.get(event.id)
    if (before === undefined) {
      fresh.push(stored(event))
      known.set(event.id, event)
    } else if (before.type !== event.type || !isDeepStrictEqual(before.data, event.data)) {
      throw new Fault('conflict', { public: `There is an event ${event.id} already, and it says something else.` })
    }
  }
  const [first] = fresh
  if (first !== undefined) {
    await write(tx, orgId, fresh)
    const details = { events: fresh.length }
    await recordAudit(tx, { orgId, action: 'event.reported', actor, targetId: first.id, details })
  }
  return named.map((event) => event.id)
}

/** A sample for one webhook. It is marked in the signed body, so that no receiver takes it for news. */
export async function publishSample(
  tx: Transaction,
  webhook: { orgId: OrgId; webhookId: WebhookId },
  sample: { type: EventType; data: object },
): Promise<{ id: Id<'evt'> }> {
  const id = newId('evt')
  const seq = await takeSequence(tx, webhook.orgId, 1)
  const event = stored({ id, type: sample.type, data: { test: true, ...sample.data } })
  await insertSample(tx, webhook.orgId, seq, event, webhook.webhookId)
  return { id }
}

/**
 * Two statements, because the second sees the webhooks that there are once the lock is held. One alone would see those from
 * before its wait: of two publishers, the later could miss a webhook that the earlier has written to.
 */
async function write(tx: Transaction, orgId: OrgId, events: readonly StoredEvent[]): Promise<void> {
  const firstSeq = (await takeSequence(tx, orgId, events.length)) - events.length + 1
  await insertEvents(tx, orgId, firstSeq, events)
}

const stored = (event: { id: string; type: EventType; data: object }): StoredEvent => ({
  id: event.id,
  type: event.type,
  body: eventBody({ ...event, at: new Date() }),
})
