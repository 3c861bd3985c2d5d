import type { Database } from '../../db/database.ts'
import type { EventType } from '../../domain/event-types.ts'
import type { OrgId } from '../../kernel/ids.ts'

/** What a lane wants next: deliveries after the newest it has read, and retries whose time has come. */
export type ReadRequest = { laneId: number; orgId: OrgId; afterSeq: number; firstsMax: number; retriesMax: number }

export type DueDelivery = {
  laneId: number
  eventSeq: number
  eventId: string
  eventType: EventType
  body: Buffer
  publishedAtMs: number
  /** Attempts so far, and those since the schedule began. Zero and zero: it has never been tried. */
  attempts: number
  tries: number
}

/** An event as it is read for sending: once, however many lanes it goes to. */
export type EventRow = { org_id: OrgId; seq: string; id: string; type: EventType; published_ms: string; body: string }

/** An event's place in a lane. */
type Place = Pick<DueDelivery, 'laneId' | 'eventSeq' | 'attempts' | 'tries'>
type DueEvent = Pick<DueDelivery, 'eventId' | 'eventType' | 'publishedAtMs' | 'body'>

const eventOf = (row: EventRow): DueEvent => ({
  eventId: row.id,
  eventType: row.type,
  publishedAtMs: Number(row.published_ms),
  body: Buffer.from(row.body),
})

/** Field by field: spread out, it would take five times as long. */
export const deliveryOf = (place: Place, event: DueEvent): DueDelivery => ({
  laneId: place.laneId,
  eventSeq: place.eventSeq,
  eventId: event.eventId,
  eventType: event.eventType,
  body: event.body,
  publishedAtMs: event.publishedAtMs,
  attempts: place.attempts,
  tries: place.tries,
})

export type Events = Map<OrgId, Map<number, DueEvent>>

export function eventsOf(rows: readonly EventRow[]): Events {
  const events: Events = new Map()
  for (const row of rows) {
    const bySeq = events.get(row.org_id) ?? new Map<number, DueEvent>()
    events.set(row.org_id, bySeq.set(Number(row.seq), eventOf(row)))
  }
  return events
}

type FoundRow =
  | ({ what: 'event' } & EventRow)
  /** `seqs`: of deliveries that were never tried, in order and with a blank between them. */
  | { what: 'firsts'; org_id: OrgId; lane_id: string; seqs: string }
  | { what: 'retry'; org_id: OrgId; lane_id: string; seq: string; attempt: number; try: number }

/**
 * Reads ahead for many lanes in one statement. An event that goes to many lanes is looked up and sent here once, and a lane is
 * one row with the numbers of all that it gets.
 */
export const readDue = async (db: Database, requests: readonly ReadRequest[]): Promise<DueDelivery[]> => {
  const rows = await db<FoundRow[]>`
    with wanted as materialized (
      select * from unnest(
        ${requests.map((one) => one.laneId)}::bigint[], ${requests.map((one) => one.orgId)}::text[],
        ${requests.map((one) => one.afterSeq)}::bigint[], ${requests.map((one) => one.firstsMax)}::int[],
        ${requests.map((one) => one.retriesMax)}::int[]
      ) as w (lane_id, org_id, after_seq, firsts_max, retries_max)
    ), firsts as materialized (
      select w.lane_id, w.org_id, array(
        select d.event_seq from keyhook.deliveries d
        where d.lane_id = w.lane_id and d.event_seq > w.after_seq
        order by d.event_seq limit w.firsts_max
      ) as seqs
      from wanted w
    ), retries as materialized (
      select w.lane_id, w.org_id, r.event_seq, r.attempt, r.try
      from wanted w cross join lateral (
        select r.event_seq, r.attempt, r.try from keyhook.retries r
        where r.lane_id = w.lane_id and r.due_at <= now()
        order by r.due_at limit w.retries_max
      ) r
    ), concerned as materialized (
      select org_id, unnest(seqs) as seq from firsts union select org_id, event_seq from retries
    )
    select 'firsts' as what, org_id, lane_id, array_to_string(seqs, ' ') as seqs, null::bigint as seq, null::int as attempt,
      null::int as try, null::text as id, null::text as type, null::bigint as published_ms, null::text as body
    from firsts where seqs <> '{}'
    union all
    (select 'retry', org_id, lane_id, null, event_seq, attempt, try, null, null, null, null from retries order by event_seq)
    union all
    select 'event', c.org_id, null, null, c.seq, null, null, e.id, e.type, (extract(epoch from e.created_at) * 1000)::bigint,
      e.body
    from concerned c
    -- \`offset 0\`: one descent of the index for each, never a scan of all events.
    cross join lateral (
      select e.id, e.type, e.created_at, e.body from keyhook.events e
      where e.org_id = c.org_id and e.seq = c.seq
      offset 0
    ) e`
  return foundOf(rows)
}

function foundOf(rows: readonly FoundRow[]): DueDelivery[] {
  const events = eventsOf(rows.filter((row) => row.what === 'event'))
  const found: DueDelivery[] = []
  const add = (orgId: OrgId, place: Place) => {
    const event = events.get(orgId)?.get(place.eventSeq)
    if (event !== undefined) found.push(deliveryOf(place, event))
  }
  for (const row of rows) {
    if (row.what === 'event') continue
    const laneId = Number(row.lane_id)
    if (row.what === 'firsts') {
      for (const seq of row.seqs.split(' ')) add(row.org_id, { laneId, eventSeq: Number(seq), attempts: 0, tries: 0 })
    } else add(row.org_id, { laneId, eventSeq: Number(row.seq), attempts: row.attempt, tries: row.try })
  }
  return found
}
