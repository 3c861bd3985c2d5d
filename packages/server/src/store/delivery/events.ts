import type { Database, Executor, Transaction } from '../../db/database.ts'
import type { AuditEntry } from '../../domain/audit.ts'
import type { OrgId, WebhookId } from '../../kernel/ids.ts'
import { insertAudits } from '../audit.ts'
import {
  type Announcement,
  announcedMax,
  announcementOf,
  announcementsOf,
  type PublishedRow,
  type PublishedWhereFreeRow,
  type StoredEvent,
} from './announcements.ts'

export class UnknownOrganization extends Error {}

function orUnknown<T>(orgId: OrgId, found: T | null | undefined): T {
  if (found === null || found === undefined) throw new UnknownOrganization(`there is no organization ${orgId}`)
  return found
}

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
  return Number(orUnknown(orgId, row?.last_seq))
}

/**
 * How long a reporter waits for the organization's other publishers. Each is done within a moment, so somebody who is not may be
 * frozen; and whoever waits has a connection that others could use. It is told to come again (`isLockTimeout`). For a moment: who
 * has no place to wait in, and tries whether anybody has to be waited for.
 */
const waits = { turn: '3s', moment: '10ms' }
export type Wait = keyof typeof waits
const waitBound = (db: Executor, wait: Wait) => db`set_config('lock_timeout', ${waits[wait]}, true)`

/**
 * Takes the turns of these organizations until the transaction ends. All in one statement, in one order everywhere: two that ask for
 * the same organizations must not wait for each other.
 */
export const takeTurns = async (tx: Transaction, orgIds: readonly OrgId[], wait: Wait): Promise<void> => {
  await tx`
    insert into keyhook.event_counters (org_id, last_seq)
    select o.id, 0 from (select ${waitBound(tx, wait)} offset 0) as bounded cross join keyhook.organizations o
    where o.id = any (${[...orgIds]}::text[]) order by o.id
    on conflict (org_id) do update set last_seq = event_counters.last_seq`
}

/** With one delivery for every webhook that is subscribed once it is this publisher's turn, however many there are. */
export const insertEvents = async (
  tx: Transaction,
  orgId: OrgId,
  events: readonly StoredEvent[],
): Promise<Announcement | null> => {
  const [row] = await tx<PublishedRow[]>`select p as taken from ${published(tx, orgId, events, [])} as p`
  orUnknown(orgId, row!.taken)
  return null
}

/** What an organization has to be told, `named` being those of the ids that somebody else chose. */
export type Publication = {
  orgId: OrgId
  events: readonly StoredEvent[]
  named: readonly string[]
  entries: readonly AuditEntry[]
}

/**
 * The same in one statement with what the audit log says of it. Of the names it says those that are taken
 * already; if there are any, nothing is written.
 */
export const insertReportedEvents = async (
  db: Database,
  { orgId, events, named, entries }: Publication,
  wait: Wait,
): Promise<{ taken: string[]; announcement: Announcement | null }> => {
  const [row] = await db<PublishedRow[]>`
    with done as materialized (
      select ${published(db, orgId, events, named)} as said from (select ${waitBound(db, wait)} offset 0) as bounded
    ),
    noted as (${insertAudits(db, entries)} where (select (said).taken = '{}' from done))
    select (said).* from done`
  const taken = orUnknown(orgId, row!.taken)
  return { taken, announcement: taken.length === 0 ? announcementOf(orgId, events, row!) : null }
}

/** For many organizations at once, and only for those that nobody else is publishing in. Says which. */
export const insertWhereFree = async (
  db: Database,
  publications: readonly Publication[],
): Promise<{ free: Set<OrgId>; announcements: Announcement[] | null }> => {
  const all = publications.flatMap(({ orgId, events, named }) => {
    const chosen = new Set(named)
    return events.map((event) => ({ ...event, orgId, name: chosen.has(event.id) ? event.id : null }))
  })
  const entries = publications.flatMap((one) => one.entries)
  const [row] = await db<PublishedWhereFreeRow[]>`
    with done as materialized (
      select keyhook.publish_where_free_and_say(
        ${all.map((event) => event.orgId)}::text[], ${all.map((event) => event.id)}::text[],
        ${all.map((event) => event.type)}::text[], ${all.map((event) => event.body)}::text[],
        ${all.map((event) => event.name)}::text[], ${announcedMax}
      ) as said
    ),
    noted as (${insertAudits(db, entries)} where org_id = any ((select (said).free from done)::text[]))
    select (said).* from done`
  return { free: new Set(row!.free), announcements: announcementsOf(publications, row!) }
}

const published = (db: Executor, orgId: OrgId, events: readonly StoredEvent[], named: readonly string[]) => db`
  keyhook.publish(
    ${orgId}, ${events.map((event) => event.id)}::text[], ${events.map((event) => event.type)}::text[],
    ${events.map((event) => event.body)}::text[], ${[...named]}::text[]
  )`

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
  select e.id, e.type, e.body from unnest(${[...new Set(ids)]}::text[]) as n (id)
  cross join lateral (
    select e.id, e.type, e.body from keyhook.events e where e.org_id = ${orgId} and e.id = n.id offset 0
  ) as e`

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
