import type { Executor } from '../../db/database.ts'
import type { AuditEntry } from '../../domain/audit.ts'
import type { OrgId, WebhookId } from '../../kernel/ids.ts'
import { insertAudits } from '../../store/audit.ts'
import { type PublishedEvent, UnknownOrganization } from '../../store/delivery/events.ts'

/*
 * Everything that publishes locks the organization's counter until it commits. So sequence numbers have no gaps and become visible
 * in order, and the next publisher of the organization waits. The work under the lock is one SQL function, `keyhook.publish`:
 * events, one delivery per subscribed webhook, and the wake, without a round trip between them.
 */

/** Empty unless traces are exported. */
const tracesOf = (events: readonly PublishedEvent[]): (string | null)[] =>
  events.some(({ traceparent }) => traceparent) ? events.map(({ traceparent = null }) => traceparent) : []

/** Publishes in the caller's transaction. Waits for the organization's other publishers. */
export const publishEvents = async (tx: Executor, orgId: OrgId, events: readonly PublishedEvent[]): Promise<void> => {
  const [row] = await tx<{ taken: string[] | null }[]>`
    select keyhook.publish(
      ${orgId}, ${events.map((event) => event.id)}::text[], ${events.map((event) => event.type)}::text[],
      ${events.map((event) => event.body)}::text[], '{}', ${tracesOf(events)}::text[]
    ) as taken`
  if (row!.taken === null) throw new UnknownOrganization(orgId)
}

/** `named`: those of the events' ids that the caller chose. `entries` are written to the audit log with the events. */
export type IntakeBatch = {
  orgId: OrgId
  events: readonly PublishedEvent[]
  named: readonly string[]
  entries: readonly AuditEntry[]
}

/**
 * Publishes a batch with its audit entries in one statement, which is a transaction by itself where the caller has none. Returns
 * the named ids that exist already: then nothing was written, and in a transaction the counter is locked.
 *
 * Fails after 20 ms when another session holds the counter (`isLockTimeout`): a waiting publisher must not keep a connection.
 * `offset 0` makes PostgreSQL set the limit before it calls the function.
 */
export const publishBatch = async (db: Executor, batch: IntakeBatch): Promise<string[]> => {
  const { orgId, events, named, entries } = batch
  const [row] = await db<{ taken: string[] | null }[]>`
    with published as materialized (
      select keyhook.publish(
        ${orgId}, ${events.map((event) => event.id)}::text[], ${events.map((event) => event.type)}::text[],
        ${events.map((event) => event.body)}::text[], ${named}::text[], ${tracesOf(events)}::text[]
      ) as taken
      from (select set_config('lock_timeout', '20ms', true) offset 0) as limited
    ), audited as (
      ${insertAudits(db, entries)} where (select taken = '{}' from published)
    )
    select taken from published`
  if (row!.taken === null) throw new UnknownOrganization(orgId)
  return row!.taken
}

/**
 * Locks the counters of several organizations, with the same limit of 20 ms each. In the order of their ids everywhere, so that
 * two transactions never wait for each other.
 */
export const lockCounters = async (tx: Executor, orgIds: readonly OrgId[]): Promise<void> => {
  const locked = await tx<{ org_id: OrgId }[]>`
    insert into keyhook.event_counters as c (org_id, last_seq)
    select o.id, 0 from (select set_config('lock_timeout', '20ms', true) offset 0) as limited
    cross join keyhook.organizations o where o.id = any (${orgIds}::text[]) order by o.id
    on conflict (org_id) do update set last_seq = c.last_seq
    returning c.org_id`
  const unknown = new Set(orgIds).difference(new Set(locked.map((row) => row.org_id)))
  for (const orgId of unknown) throw new UnknownOrganization(orgId)
}

/**
 * A test event: it goes to one webhook, subscribed or not, and has no sequence number. The counter is locked by a statement of its
 * own, so that the second one sees what other publishers have committed.
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
  const { seq } = counter!
  await tx`
    with event as (
      insert into keyhook.events (org_id, seq, id, type, body, sample, traceparent)
      values (${orgId}, ${seq}, ${id}, ${type}, ${body}, true, ${traceparent})
    ), wake as (
      insert into keyhook.wakes (org_id, first_seq, last_seq) values (${orgId}, ${seq}, ${seq})
    )
    insert into keyhook.deliveries (org_id, event_seq, lane_id, previous_sequence)
    select w.org_id, ${seq}, w.lane_id, (
      select coalesce(d.sequence, d.previous_sequence) from keyhook.deliveries d
      where d.lane_id = w.lane_id order by d.event_seq desc limit 1
    )
    from keyhook.webhooks w
    where w.org_id = ${orgId} and w.id = ${webhookId} and w.deleted_at is null`
}
