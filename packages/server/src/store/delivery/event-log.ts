import type { Database } from '../../db/database.ts'
import type { OrgId } from '../../kernel/ids.ts'

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
  order: 'asc' | 'desc'
}

/**
 * The next events of a filter, with `expired` as of the same moment: an `after` that is not below it has missed nothing. Reads in
 * the order of numbers and filters on the way, so all pages together read each event once at most.
 */
export const listEvents = async (
  db: Database,
  orgId: OrgId,
  { after, before, since, until, types, order }: EventFilter,
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
      ${order === 'asc' ? db`order by sequence` : db`order by sequence desc`} limit ${limit}
    ) e on true
    ${order === 'asc' ? db`order by e.sequence` : db`order by e.sequence desc`}`
  return { events: rows.filter((row) => row.sequence !== null), expired: Number(rows[0]!.expired) }
}

/** Events per read of a stream, and bytes of their bodies after which a read ends. Each slow reader keeps one read in memory. */
const streamedEvents = 100
const streamedBytes = 256 * 1_024

/** `isEnd`: there were no more at that moment. */
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
