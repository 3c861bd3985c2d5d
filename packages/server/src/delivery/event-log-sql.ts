import type { Database, Executor } from '../db/database.ts'
import type { DatabaseId, OrgId } from '../lib/ids.ts'
import { eventTypes, sampleData } from './events.ts'

/*
 * The events of an organization by their public numbers. Test events have none and are not in it. Events up to `expired` are left
 * out even where some of them are still stored, because retention has deleted others between them.
 */

/** The newest number, and the newest that retention has deleted; 0 where there is none. */
export type EventPositions = { newest: number; expired: number }

export const findPositions = async (db: Database, orgId: OrgId): Promise<EventPositions> => {
  const [row] = await db<{ newest: string; expired: string }[]>`
    select coalesce((select last_sequence from keyhook.event_counters where org_id = ${orgId}), 0) as newest,
      coalesce((select last_sequence from keyhook.expired_events where org_id = ${orgId}), 0) as expired`
  return { newest: Number(row!.newest), expired: Number(row!.expired) }
}

export type LoggedEvent = { sequence: string; id: string; type: string; created_at: Date; body: string }

export type EventFilter = {
  after: number
  before: number
  since: Date | null
  until: Date | null
  types: readonly string[] | null
  databases: readonly DatabaseId[] | null
  order: 'asc' | 'desc'
}

/**
 * The next events of a filter, with `expired` as of the same time: an `after` that is not below it has missed nothing. Reads in
 * the order of numbers and filters on the way, so all pages together read each event once at most.
 */
export const listEvents = async (
  db: Database,
  orgId: OrgId,
  { after, before, since, until, types, databases, order }: EventFilter,
  limit: number,
): Promise<{ events: LoggedEvent[]; expired: number }> => {
  const rows = await db<({ expired: string } & (LoggedEvent | { sequence: null }))[]>`
    select x.expired, e.*
    from (
      select coalesce(max(last_sequence), 0) as expired from keyhook.expired_events where org_id = ${orgId}
    ) x
    left join lateral (
      select sequence, id, type, created_at, body from keyhook.events
      where org_id = ${orgId} and sequence > greatest(x.expired, ${after}::bigint) and sequence < ${before}
        and (${since}::timestamptz is null or created_at >= ${since})
        and (${until}::timestamptz is null or created_at < ${until})
        and (${types}::text[] is null or type = any (${types}))
        ${databases === null ? db`` : ofDatabases(db, databases)}
      ${order === 'asc' ? db`order by sequence` : db`order by sequence desc`} limit ${limit}
    ) e on true
    ${order === 'asc' ? db`order by e.sequence` : db`order by e.sequence desc`}`
  return { events: rows.filter((row) => row.sequence !== null), expired: Number(rows[0]!.expired) }
}

/** What the platform reports of databases. Other types may have a field of that name, too. */
export const databaseEventTypes: readonly string[] = eventTypes.filter((type) => 'database_id' in sampleData(type))

/** PostgreSQL rejects JSON with the escapes of U+0000 and of half surrogates, so each escape is replaced by that of a line break. */
const ofDatabases = (db: Database, ids: readonly DatabaseId[]) => db`
  and type = any (${databaseEventTypes}::text[])
  and regexp_replace(body, '\\\\u[0-9a-fA-F]{4}', '\\\\n', 'g')::json #>> '{data,database_id}' = any (${ids}::text[])`

/** Events per read of a stream, and bytes of their bodies after which a read ends. Each slow reader keeps one read in memory. */
const streamedEvents = 100
const streamedBytes = 256 * 1_024

/** `isEnd`: there were no more at that time. */
export type EventBatch = { events: LoggedEvent[]; expired: number; isEnd: boolean }

/** The next events after a position, of every type. */
export const readEventsAfter = async (db: Database, orgId: OrgId, after: number): Promise<EventBatch> => {
  const rows = await db<({ expired: string } & (LoggedEvent | { sequence: null }) & { bytes: string | null })[]>`
    select x.expired, e.*
    from (
      select coalesce(max(last_sequence), 0) as expired from keyhook.expired_events where org_id = ${orgId}
    ) x
    left join lateral (
      select e.*, sum(octet_length(body)) over (order by sequence) as bytes
      from (
        select sequence, id, type, created_at, body from keyhook.events
        where org_id = ${orgId} and sequence > ${after}
        order by sequence limit ${streamedEvents}
      ) e
    ) e on e.bytes - octet_length(e.body) < ${streamedBytes}
    order by e.sequence`
  const events = rows.filter((row) => row.sequence !== null)
  const isEnd = events.length < streamedEvents && Number(rows.at(-1)!.bytes) < streamedBytes
  return { events, expired: Number(rows[0]!.expired), isEnd }
}

/** Those of the organizations that have published, with their newest numbers. */
export const listNewest = async (db: Database, orgIds: readonly OrgId[]): Promise<Map<OrgId, number>> => {
  const rows = await db<{ org_id: OrgId; last_sequence: string }[]>`
    select org_id, last_sequence from keyhook.event_counters where org_id = any (${orgIds}::text[])`
  return new Map(rows.map((row) => [row.org_id, Number(row.last_sequence)]))
}

/** `body`: the exact text that is sent and signed. */
export type StoredEvent = { id: string; type: string; body: string }

/** An event that is about to be stored. `traceparent`: of what publishes it, if traces are exported. */
export type PublishedEvent = StoredEvent & { traceparent?: string | null }

export class UnknownOrganization extends Error {
  constructor() {
    super('one of the organizations does not exist')
  }
}

/** `offset 0`: one index look-up for each id, never a scan of an organization's history. */
export const findEventsById = (db: Executor, events: readonly { orgId: OrgId; id: string }[]) =>
  db<(StoredEvent & { orgId: OrgId })[]>`
  select n.org_id as "orgId", e.id, e.type, e.body
  from unnest(${events.map(({ orgId }) => orgId)}::text[], ${events.map(({ id }) => id)}::text[]) as n (org_id, id)
  cross join lateral (
    select e.id, e.type, e.body from keyhook.events e where e.org_id = n.org_id and e.id = n.id offset 0
  ) as e`

export const existingOrganizations = async (db: Executor, ids: readonly OrgId[]): Promise<Set<OrgId>> => {
  const rows = await db<{ id: OrgId }[]>`
    select id from keyhook.organizations where id = any (${[...ids]}::text[]) and deleted_at is null`
  return new Set(rows.map((row) => row.id))
}

export type EventRow = StoredEvent & { seq: string; sequence: string | null; created_at: Date; sample: boolean }

export const findEvent = async (db: Database, orgId: OrgId, id: string): Promise<EventRow | null> => {
  const [row] = await db<EventRow[]>`
    select seq, sequence, id, type, body, created_at, sample from keyhook.events where org_id = ${orgId} and id = ${id}`
  return row ?? null
}
