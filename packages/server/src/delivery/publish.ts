import { type AuditEntry, insertAudits } from '../access/audit.ts'
import type { Executor, PublishingTransaction } from '../db/database.ts'
import { type Id, newId, type OrgId, type WebhookId } from '../lib/ids.ts'
import { activeTraceparent, inSpan } from '../lib/tracing.ts'
import { type PublishedEvent, UnknownOrganization } from './event-log-sql.ts'
import type { NewEvent } from './events.ts'
import { requestWhileSuspended } from './lane-sql.ts'

/** The signed bytes that every receiver gets. The order of the fields matters. */
export const eventBody = (event: { id: string; type: string; at: Date; data: object }): string =>
  JSON.stringify({ id: event.id, type: event.type, timestamp: event.at.toISOString(), data: event.data })

/**
 * Writes the event and one delivery per subscribed webhook in the transaction that changes the state it reports. The next
 * publisher of the organization waits until this transaction ends, so publish last.
 */
export async function publish(tx: PublishingTransaction, { orgId, type, data }: NewEvent): Promise<Id<'evt'>> {
  const [id] = await publishAll(tx, { orgId, type, data: [data] })
  return id!
}

/** An event for each of the data, of a type that the caller has looked up. In a deleted organization nothing is published. */
export async function publishAll(
  tx: PublishingTransaction,
  { orgId, type, data }: { orgId: OrgId; type: string; data: readonly object[] },
): Promise<Id<'evt'>[]> {
  const at = new Date()
  const ids = data.map(() => newId('evt'))
  const bodies = data.map((one, i) => eventBody({ id: ids[i]!, type, at, data: one }))
  await inSpan(`publish ${type}`, { kind: 'producer', attributes: { 'keyhook.event.id': ids[0]! } }, () => {
    const traceparent = activeTraceparent()
    return publishEvents(
      tx,
      orgId,
      ids.map((id, i) => ({ id, type, body: bodies[i]!, traceparent })),
    ).catch((error: unknown) => {
      // What it reports, such as the end of a backup, happens all the same.
      if (!(error instanceof UnknownOrganization)) throw error
    })
  })
  tx.hintAfterCommit(orgId)
  return ids
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

/*
 * Everything that publishes locks the organization's counter until it commits. So sequence numbers have no gaps and become visible
 * in order, and the next publisher of the organization waits. The work under the lock is one SQL function, `keyhook.publish` or
 * `keyhook.publish_where_free`: events, one delivery per subscribed webhook, and the wakes, without a round trip between them.
 */

export const publishEvents = async (tx: Executor, orgId: OrgId, events: readonly PublishedEvent[]): Promise<void> => {
  const [row] = await tx<{ taken: number[] | null }[]>`
    select keyhook.publish(${argumentsOf(tx, ofOne(orgId, events))}, '{}', null) as taken`
  if (row!.taken === null) throw new UnknownOrganization()
}

const ofOne = (orgId: OrgId, events: readonly PublishedEvent[]): BatchEvent[] =>
  events.map((event) => ({ ...event, orgId, isNamed: false }))

/** `isNamed`: the caller chose the id. */
export type BatchEvent = PublishedEvent & { orgId: OrgId; isNamed: boolean }

export type IntakeBatch = { events: readonly BatchEvent[]; entries: readonly AuditEntry[] }

/**
 * Publishes where no other session publishes, in one statement, which is a transaction by itself. Returns the organizations that
 * were left out: nothing was written for them.
 */
export const publishWhereFree = async (db: Executor, { events, entries }: IntakeBatch): Promise<Set<OrgId>> => {
  const [row] = await db<{ left_out: OrgId[] }[]>`
    with published as materialized (
      select keyhook.publish_where_free(${argumentsOf(db, events)}) as left_out
    ), audited as (
      ${insertAudits(db, entries)} where org_id <> all ((select left_out from published)::text[])
    )
    select left_out from published`
  return new Set(row!.left_out)
}

/** Many waiting publishers must not keep connections for longer, nor the locks of other organizations. */
export const lockMsMin = 20

/**
 * Publishes a batch with its audit entries in one statement, which is a transaction by itself where the caller has none. Returns
 * those of the named events that exist already: then nothing was written, and in a transaction the counters are locked.
 *
 * Fails after `lockMs` when another session holds a counter (`isLockTimeout`).
 */
export const publishBatch = async (
  db: Executor,
  { events, entries }: IntakeBatch,
  lockMs = lockMsMin,
): Promise<BatchEvent[]> => {
  const named = events.some(({ isNamed }) => isNamed) ? events.map(({ isNamed }) => isNamed) : []
  const [row] = await db<{ taken: number[] | null }[]>`
    with published as materialized (
      select keyhook.publish(${argumentsOf(db, events)}, ${named}::boolean[], ${lockMs}) as taken
    ), audited as (
      ${insertAudits(db, entries)} where (select taken = '{}' from published)
    )
    select taken from published`
  if (row!.taken === null) throw new UnknownOrganization()
  return row!.taken.map((position) => events[position - 1]!)
}

/** The arguments that the functions share. Organizations are in the order of their ids, which is the order of the locks. */
function argumentsOf(db: Executor, events: readonly BatchEvent[]) {
  const counts = new Map<OrgId, number>()
  const turns = events.map(({ orgId }) => {
    const turn = (counts.get(orgId) ?? 0) + 1
    counts.set(orgId, turn)
    return turn
  })
  const orgs = [...counts.keys()].sort()
  const placeOf = new Map(orgs.map((orgId, i) => [orgId, i + 1]))
  return db`
    ${orgs}::text[], ${orgs.map((orgId) => counts.get(orgId)!)}::int[],
    ${events.map(({ orgId }) => placeOf.get(orgId)!)}::int[], ${turns}::int[],
    ${events.map(({ id }) => id)}::text[], ${events.map(({ type }) => type)}::text[],
    ${events.map(({ body }) => body)}::text[], ${tracesOf(events)}::text[]`
}

/** Empty unless traces are exported. */
const tracesOf = (events: readonly PublishedEvent[]): (string | null)[] =>
  events.some(({ traceparent }) => traceparent) ? events.map(({ traceparent = null }) => traceparent) : []

/**
 * A test event: it goes to one webhook, subscribed or not, and has no sequence number. The counter is locked by a statement of its
 * own, so that the second one sees what other publishers have committed.
 *
 * Behind the deliveries of a suspended webhook it would wait for days, and it is how somebody tries whether the receiver works again.
 * So it is put in line as a retry, before its first attempt, which a process of an older version leaves alone. -1 is the complement
 * of its attempts so far, none.
 */
export const publishSampleEvent = async (
  tx: Executor,
  orgId: OrgId,
  webhookId: WebhookId,
  { id, type, body, traceparent = null }: PublishedEvent,
): Promise<void> => {
  const [counter] = await tx<{ seq: string }[]>`
    insert into keyhook.event_counters as c (org_id, last_seq) values (${orgId}, 1)
    on conflict (org_id) do update set last_seq = c.last_seq + 1
    returning c.last_seq as seq`
  if (counter === undefined) throw new UnknownOrganization()
  const { seq } = counter
  await tx`
    insert into keyhook.events (org_id, seq, id, type, body, sample, traceparent)
    values (${orgId}, ${seq}, ${id}, ${type}, ${body}, true, ${traceparent})`
  const suspendedLane = await requestWhileSuspended(tx, orgId, webhookId)
  if (suspendedLane === null) await deliverSample(tx, orgId, webhookId, seq)
  else {
    await tx`
      insert into keyhook.retries (lane_id, event_seq, org_id, due_at, attempt, try)
      values (${suspendedLane}, ${seq}, ${orgId}, now(), -1, 0)`
  }
}

const deliverSample = (tx: Executor, orgId: OrgId, webhookId: WebhookId, seq: string) => tx`
  with wake as (
    insert into keyhook.wakes (org_id, first_seq, last_seq) values (${orgId}, ${seq}, ${seq})
  )
  insert into keyhook.deliveries (org_id, event_seq, lane_id, previous_sequence)
  select w.org_id, ${seq}, w.lane_id, (
    select coalesce(d.sequence, d.previous_sequence) from keyhook.deliveries d
    where d.lane_id = w.lane_id order by d.event_seq desc limit 1
  )
  from keyhook.webhooks w
  where w.org_id = ${orgId} and w.id = ${webhookId} and w.deleted_at is null`
