import type { EventType } from '../domain/event-types.ts'
import type { OrgId } from '../kernel/ids.ts'
import type { Database } from './database.ts'

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

export type DueRow = {
  lane_id: string
  org_id: string
  event_seq: string
  attempt: number
  try: number
  id: string
  type: EventType
  published_ms: string
  body: string | null
}

export const deliveryOf = (row: DueRow, body: Buffer): DueDelivery => ({
  laneId: Number(row.lane_id),
  eventSeq: Number(row.event_seq),
  eventId: row.id,
  eventType: row.type,
  body,
  publishedAtMs: Number(row.published_ms),
  attempts: row.attempt,
  tries: row.try,
})

/** Reads ahead for many lanes in one statement. A body that goes to many lanes crosses the wire once. */
export const readDue = async (db: Database, requests: readonly ReadRequest[]): Promise<DueDelivery[]> => {
  const rows = await db<DueRow[]>`
    with wanted as materialized (
      select * from unnest(
        ${requests.map((one) => one.laneId)}::bigint[], ${requests.map((one) => one.orgId)}::text[],
        ${requests.map((one) => one.afterSeq)}::bigint[], ${requests.map((one) => one.firstsMax)}::int[],
        ${requests.map((one) => one.retriesMax)}::int[]
      ) as w (lane_id, org_id, after_seq, firsts_max, retries_max)
    ), found as materialized (
      select w.lane_id, w.org_id, d.event_seq, 0 as attempt, 0 as try
      from wanted w cross join lateral (
        select d.event_seq from keyhook.deliveries d
        where d.lane_id = w.lane_id and d.event_seq > w.after_seq
        order by d.event_seq limit w.firsts_max
      ) d
      union all
      select w.lane_id, w.org_id, r.event_seq, r.attempt, r.try
      from wanted w cross join lateral (
        select r.event_seq, r.attempt, r.try from keyhook.retries r
        where r.lane_id = w.lane_id and r.due_at <= now()
        order by r.due_at limit w.retries_max
      ) r
    )
    select f.lane_id, f.org_id, f.event_seq, f.attempt, f.try, e.id, e.type,
      (extract(epoch from e.created_at) * 1000)::bigint as published_ms,
      case when row_number() over (partition by f.org_id, f.event_seq) = 1 then e.body end as body
    from found f
    -- \`offset 0\`: one descent of the index for each, never a scan of all events.
    cross join lateral (
      select e.id, e.type, e.created_at, e.body from keyhook.events e
      where e.org_id = f.org_id and e.seq = f.event_seq
      offset 0
    ) e`
  return deliveriesOf(rows)
}

function deliveriesOf(rows: readonly DueRow[]): DueDelivery[] {
  const bodies = new Map<string, Buffer>()
  for (const row of rows) if (row.body !== null) bodies.set(`${row.org_id} ${row.event_seq}`, Buffer.from(row.body))
  const deliveries = rows.map((row) => deliveryOf(row, bodies.get(`${row.org_id} ${row.event_seq}`)!))
  return deliveries.sort((a, b) => a.eventSeq - b.eventSeq)
}
