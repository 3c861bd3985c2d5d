import type { EventType } from '../domain/event-types.ts'
import type { OrgId, WebhookId } from '../kernel/ids.ts'
import type { Database, Executor, Transaction } from './database.ts'

export type StoredEvent = { id: string; type: EventType; body: string }

export class UnknownOrganization extends Error {}

/**
 * Takes the next `count` sequence numbers and says which was the last. The row stays locked until the transaction ends:
 * that is what makes the sequence gapless, and visible in order.
 */
export const takeSequence = async (tx: Transaction, orgId: OrgId, count: number): Promise<number> => {
  const [row] = await tx<{ last_seq: string }[]>`
    insert into keyhook.event_counters (org_id, last_seq)
    select id, ${count} from keyhook.organizations where id = ${orgId}
    on conflict (org_id) do update set last_seq = event_counters.last_seq + ${count}
    returning last_seq`
  if (row === undefined) throw new UnknownOrganization(`there is no organization ${orgId}`)
  return Number(row.last_seq)
}

/*
 * Events, their deliveries and the word that there are some, in one statement: a publisher is often in a hurry, and holds up
 * the next one of its organization.
 */

/** With one delivery for every webhook that is subscribed right now, however many there are. */
export const insertEvents = async (
  tx: Transaction,
  orgId: OrgId,
  firstSeq: number,
  events: readonly StoredEvent[],
): Promise<void> => {
  await tx`
    with input as materialized (
      select ${firstSeq} + n - 1 as seq, id, type, body
      from unnest(
        ${events.map((event) => event.id)}::text[],
        ${events.map((event) => event.type)}::text[],
        ${events.map((event) => event.body)}::text[]
      ) with ordinality as e (id, type, body, n)
    ), written as (
      insert into keyhook.events (org_id, seq, id, type, body) select ${orgId}, seq, id, type, body from input
    ), wake as (
      insert into keyhook.wakes (org_id, first_seq, last_seq) values (${orgId}, ${firstSeq}, ${firstSeq + events.length - 1})
    )
    insert into keyhook.deliveries (org_id, event_seq, lane_id)
    select ${orgId}, i.seq, w.lane_id
    from input i join keyhook.webhooks w on w.org_id = ${orgId} and w.deleted_at is null and i.type = any (w.event_types)`
}

/** A sample goes to the webhook that asked for it, subscribed or not. */
export const insertSample = async (
  tx: Transaction,
  orgId: OrgId,
  seq: number,
  { id, type, body }: StoredEvent,
  webhookId: WebhookId,
): Promise<void> => {
  await tx`
    with written as (
      insert into keyhook.events (org_id, seq, id, type, body, sample) values (${orgId}, ${seq}, ${id}, ${type}, ${body}, true)
    ), wake as (
      insert into keyhook.wakes (org_id, first_seq, last_seq) values (${orgId}, ${seq}, ${seq})
    )
    insert into keyhook.deliveries (org_id, event_seq, lane_id)
    select org_id, ${seq}, lane_id from keyhook.webhooks
    where org_id = ${orgId} and id = ${webhookId} and deleted_at is null`
}

/** Those of the ids that are taken. Call it with the sequence taken, so that nobody else is about to take them. */
export const findEventsById = (tx: Transaction, orgId: OrgId, ids: readonly string[]) => tx<StoredEvent[]>`
  select id, type, body from keyhook.events where org_id = ${orgId} and id = any (${[...ids]}::text[])`

export const existingOrganizations = async (db: Executor, ids: readonly OrgId[]): Promise<Set<OrgId>> => {
  const rows = await db<{ id: OrgId }[]>`
    select id from keyhook.organizations where id = any (${[...ids]}::text[])`
  return new Set(rows.map((row) => row.id))
}

export type EventRow = StoredEvent & { seq: string; created_at: Date; sample: boolean }

export const findEvent = async (db: Database, orgId: OrgId, id: string): Promise<EventRow | null> => {
  const [row] = await db<EventRow[]>`
    select seq, id, type, body, created_at, sample from keyhook.events where org_id = ${orgId} and id = ${id}`
  return row ?? null
}
