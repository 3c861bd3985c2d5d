import type { Database } from '../../db/database.ts'
import { plainArray } from '../../db/statement.ts'
import type { OrgId } from '../../lib/ids.ts'

/** What a held lane wants: first attempts after the newest it has, and retries that are due. */
export type FetchRequest = {
  laneId: number
  orgId: OrgId
  afterSeq: number
  firstsMax: number
  retriesMax: number
  /** Then only what was requested, and one delivery if a probe is due. */
  suspended: boolean
}

export type DueDelivery = {
  laneId: number
  eventSeq: number
  eventId: string
  eventType: string
  body: Buffer
  publishedAtMs: number
  /** Of what published the event; null unless traces are exported. */
  traceparent: string | null
  /** The public number of the event, and of the one published to this webhook before it. Null for a test event. */
  sequence: number | null
  previousSequence: number | null
  /** Attempts so far, and those since the schedule started. Zero and zero: never tried. */
  attempts: number
  tries: number
  /** A redelivery, or a test event that does not wait for its turn: tried at once, also while the webhook is suspended. */
  requested: boolean
  early: boolean
}

type Event = Pick<DueDelivery, 'eventId' | 'eventType' | 'publishedAtMs' | 'body' | 'sequence' | 'traceparent'>

type FetchedRow = { org_id: OrgId; seq: string } & (
  | { lane_id: string; attempt: number; try: number; requested: boolean; previous_sequence: string | null }
  | {
      lane_id: null
      id: string
      type: string
      published_ms: string
      body: string
      sequence: string | null
      traceparent: string | null
    }
)

/**
 * Reads ahead for many lanes at once, retries first, then first attempts in order. The answer has a row per delivery and a row per
 * event: an event that goes to many lanes crosses the wire once and is one buffer in memory.
 */
export const fetchDue = async (db: Database, requests: readonly FetchRequest[]): Promise<DueDelivery[]> => {
  const rows = await db<FetchedRow[]>`
    with wanted as materialized (
      select * from unnest(
        ${plainArray(requests.map((one) => one.laneId))}::bigint[], ${plainArray(requests.map((one) => one.orgId))}::text[],
        ${plainArray(requests.map((one) => one.afterSeq))}::bigint[], ${plainArray(requests.map((one) => one.firstsMax))}::int[],
        ${plainArray(requests.map((one) => one.retriesMax))}::int[],
        ${plainArray(requests.map((one) => one.suspended))}::boolean[]
      ) as w (lane_id, org_id, after_seq, firsts_max, retries_max, suspended)
    ), due as materialized (
      select w.lane_id, w.org_id, r.event_seq, r.attempt, r.try, r.requested, d.previous_sequence
      from wanted w cross join lateral (
        (
          select r.event_seq, r.attempt, r.try, r.redelivered or r.attempt < 0 as requested from keyhook.retries r
          where r.lane_id = w.lane_id and r.due_at <= now() and not w.suspended
          order by r.due_at limit w.retries_max
        ) union all (
          -- By an index of its own: hundreds of thousands of others may be due.
          select r.event_seq, r.attempt, r.try, true from keyhook.retries r
          where r.lane_id = w.lane_id and r.due_at <= now() and w.suspended and (r.redelivered or r.attempt < 0)
          order by r.due_at limit w.retries_max
        )
      ) r
      left join lateral (
        select d.previous_sequence from keyhook.deliveries d
        where d.lane_id = w.lane_id and d.event_seq = r.event_seq offset 0
      ) d on true
      union all
      select w.lane_id, w.org_id, d.event_seq, 0, 0, false, d.previous_sequence
      from wanted w cross join lateral (
        select d.event_seq, d.previous_sequence from keyhook.deliveries d
        where d.lane_id = w.lane_id and d.event_seq > w.after_seq and not w.suspended
        order by d.event_seq limit w.firsts_max
      ) d
      union all
      select w.lane_id, w.org_id, p.event_seq, p.attempt, p.try, false, p.previous_sequence
      from wanted w cross join lateral (${probe(db)}) p
      where w.suspended
    )
    select e.org_id, e.seq, null::bigint as lane_id, null::int as attempt, null::int as try, null::boolean as requested, e.id, e.type,
      (extract(epoch from e.created_at) * 1000)::bigint as published_ms, e.body, e.sequence, null::bigint as previous_sequence, e.traceparent
    from (select distinct org_id, event_seq from due) d
    -- "offset 0": an index look-up for each, never a scan of all events.
    cross join lateral (select * from keyhook.events e where e.org_id = d.org_id and e.seq = d.event_seq offset 0) e
    union all
    select org_id, event_seq, lane_id, attempt, try, requested, null, null, null, null, null, previous_sequence, null from due`
  return deliveriesOf(rows)
}

/** What a suspended lane `w` is tried with: the delivery that has waited longest for its retry, or else the next first attempt. */
const probe = (db: Database) => db`
  select x.* from keyhook.lanes l cross join lateral (
    (
      select 0 as turn, r.event_seq, r.attempt, r.try, d.previous_sequence
      from keyhook.retries r left join lateral (
        select d.previous_sequence from keyhook.deliveries d
        where d.lane_id = r.lane_id and d.event_seq = r.event_seq offset 0
      ) d on true
      where r.lane_id = w.lane_id and not r.redelivered and r.attempt >= 0
      order by r.due_at limit 1
    ) union all (
      select 1, d.event_seq, 0, 0, d.previous_sequence from keyhook.deliveries d
      where d.lane_id = w.lane_id and d.event_seq > w.after_seq
      order by d.event_seq limit 1
    )
    order by turn limit 1
  ) x
  where l.id = w.lane_id and l.probe_at <= now()`

const numberOf = (text: string | null): number | null => (text === null ? null : Number(text))

function deliveriesOf(rows: readonly FetchedRow[]): DueDelivery[] {
  const events = new Map<string, Event>()
  const deliveries: DueDelivery[] = []
  for (const row of rows) {
    const key = `${row.org_id} ${row.seq}`
    if (row.lane_id === null) {
      const { id: eventId, type: eventType, published_ms, body, traceparent } = row
      const sequence = numberOf(row.sequence)
      events.set(key, {
        eventId,
        eventType,
        publishedAtMs: Number(published_ms),
        body: Buffer.from(body),
        sequence,
        traceparent,
      })
      continue
    }
    const event = events.get(key)
    // Retention deletes an event only when all its deliveries have finished.
    if (event === undefined) continue
    // Field by field: a spread takes five times as long, for every delivery.
    deliveries.push({
      laneId: Number(row.lane_id),
      eventSeq: Number(row.seq),
      eventId: event.eventId,
      eventType: event.eventType,
      body: event.body,
      publishedAtMs: event.publishedAtMs,
      traceparent: event.traceparent,
      sequence: event.sequence,
      previousSequence: event.sequence === null ? null : numberOf(row.previous_sequence),
      attempts: Math.max(row.attempt, ~row.attempt),
      tries: row.try,
      requested: row.requested,
      early: row.attempt < 0,
    })
  }
  return deliveries
}
