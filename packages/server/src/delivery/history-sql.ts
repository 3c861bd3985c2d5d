import type { Database, Executor } from '../db/database.ts'
import { type OrgId, uuid7Floor, type WebhookId } from '../lib/ids.ts'

type AttemptRow = {
  id: string
  attempt: number
  status: 'sending' | 'succeeded' | 'failed' | 'interrupted'
  started_at: Date
  duration_us: number | null
  dns_us: number | null
  connect_us: number | null
  tls_us: number | null
  first_byte_us: number | null
  address: string | null
  request_headers: string | null
  response_status: number | null
  response_headers: string | null
  response_body: string | null
  response_complete: boolean | null
  error_code: string | null
  error_detail: string | null
  next_attempt_at: Date | null
  /** A redelivery or recovery asked for it. */
  redelivered: boolean
}

/** `earlier_url`: where it was sent, if the webhook has another URL by now. */
export type HistoryRow = AttemptRow & { event_id: string; event_type: string; earlier_url: string | null }

/** Null for a webhook that does not exist or is deleted. */
export const findLane = async (db: Executor, orgId: OrgId, webhookId: WebhookId) => {
  const [row] = await db<{ lane_id: string; url: string }[]>`
    select lane_id, url from keyhook.webhooks where org_id = ${orgId} and id = ${webhookId} and deleted_at is null`
  return row === undefined ? null : { laneId: Number(row.lane_id), url: row.url }
}

/** Whether an attempt to the webhook is in flight; the webhook may be deleted. */
export const hasAttemptInFlight = async (db: Database, orgId: OrgId, webhookId: WebhookId): Promise<boolean> => {
  const rows = await db`
    select from keyhook.in_flight where lane_id = (
      select lane_id from keyhook.webhooks where org_id = ${orgId} and id = ${webhookId}
    ) limit 1`
  return rows.count > 0
}

/** Sorts after every id. Always a bound, so that every page is one descent of the index. */
const afterAllIds = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** The columns of an attempt that has ended, and the same of one that is in flight. */
export const columnsOfEnded = (db: Executor) => db`
  id, event_seq, attempt, status, started_at, duration_us, dns_us, connect_us, tls_us, first_byte_us, address, request_headers,
  response_status, response_headers, response_body, response_complete, error_code, error_detail, next_attempt_at, redelivered`
export const columnsInFlight = (db: Executor) => db`
  id, event_seq, attempt, 'sending', started_at, null, null, null, null, null, null, null,
  null, null, null, null, null, null, null, redelivered`

/** Attempts newest first, ended ones and those in flight. Settling moves a row from one table to the other in one statement. */
export const listAttempts = (
  db: Database,
  orgId: OrgId,
  laneId: number,
  { before, limit }: { before: string | null; limit: number },
) => db<HistoryRow[]>`
  select r.*, e.id as event_id, e.type as event_type, (
      select u.url from keyhook.earlier_urls u where u.lane_id = ${laneId} and u.until > r.started_at order by u.until limit 1
    ) as earlier_url
  from (
    (
      select ${columnsOfEnded(db)} from keyhook.attempts
      where lane_id = ${laneId} and id < ${before ?? afterAllIds}
      order by id desc limit ${limit}
    )
    union all
    (
      select ${columnsInFlight(db)} from keyhook.in_flight
      where lane_id = ${laneId} and id < ${before ?? afterAllIds}
      order by id desc limit ${limit}
    )
  ) r
  join keyhook.events e on e.org_id = ${orgId} and e.seq = r.event_seq
  order by r.id desc
  limit ${limit}`

export type EventAttemptRow = Pick<
  AttemptRow,
  | 'id'
  | 'attempt'
  | 'status'
  | 'started_at'
  | 'duration_us'
  | 'response_status'
  | 'error_code'
  | 'next_attempt_at'
  | 'redelivered'
> & { lane_id: string }

/**
 * Every attempt to deliver one event in these lanes, by webhook and number. Not by id: ids follow the clocks of dispatchers. Not from
 * the deliveries: a test event of a suspended webhook has none.
 */
export const listAttemptsOfEvent = (
  db: Database,
  orgId: OrgId,
  { seq, lanes }: { seq: string; lanes: readonly string[] },
) => db<EventAttemptRow[]>`
  select a.lane_id, a.id, a.attempt, a.status, a.started_at, a.duration_us, a.response_status, a.error_code,
    a.next_attempt_at, a.redelivered
  from keyhook.attempts a
  where a.org_id = ${orgId} and a.lane_id = any (${lanes}::bigint[]) and a.event_seq = ${seq}
  union all
  select f.lane_id, f.id, f.attempt, 'sending', f.started_at, null, null, null, null, f.redelivered
  from keyhook.in_flight f
  where f.org_id = ${orgId} and f.lane_id = any (${lanes}::bigint[]) and f.event_seq = ${seq}
  order by 1, 3`

export type EventWebhookRow = {
  lane_id: string
  id: WebhookId
  url: string
  subscribed: boolean
  created_later: boolean
  /** It got its event types after the event. */
  subscribed_later: boolean
  deleted: boolean
  addressed: boolean
  started: boolean
  waiting_until: Date | null
}

/**
 * The webhooks of the organization, with what decided whether the event went to them. Webhooks deleted before the event are left
 * out; compared with the event's own row, because a `Date` has only milliseconds.
 */
export const listWebhooksOfEvent = (
  db: Database,
  orgId: OrgId,
  event: { seq: string; type: string; created_at: Date },
) => db<EventWebhookRow[]>`
  select w.lane_id, w.id, w.url, ${event.type} = any (w.event_types) as subscribed,
    w.created_at > ${event.created_at} as created_later,
    w.types_since > w.created_at and w.types_since > ${event.created_at} as subscribed_later, w.deleted_at is not null as deleted,
    d.lane_id is not null or early.found as addressed, coalesce(l.cursor_seq >= ${event.seq}, false) as started,
    r.due_at as waiting_until
  from keyhook.webhooks w
  left join keyhook.lanes l on l.id = w.lane_id
  left join keyhook.deliveries d on d.org_id = w.org_id and d.event_seq = ${event.seq} and d.lane_id = w.lane_id
  left join keyhook.retries r on r.lane_id = w.lane_id and r.event_seq = ${event.seq}
  -- A test event of a suspended webhook does not wait for its turn, and is not among the deliveries.
  cross join lateral (
    select d.lane_id is null and (
      r.lane_id is not null
      or exists (select from keyhook.in_flight f where f.lane_id = w.lane_id and f.event_seq = ${event.seq})
      or exists (select from keyhook.attempts a where a.lane_id = w.lane_id and a.event_seq = ${event.seq})
    ) as found
  ) early
  where w.org_id = ${orgId} and (
    w.deleted_at is null or d.lane_id is not null
    or w.deleted_at > (select created_at from keyhook.events where org_id = ${orgId} and seq = ${event.seq})
  )
  order by w.id`

export type OutcomesRow = { succeeded: number; failing: number; failed: number; waiting: number; expired: number }

/** Of one event. A page of 50 events looks up 10,000 deliveries at most: about 0.2 s of PostgreSQL. */
export const deliveriesCounted = 200

/** Ids of attempts follow the clocks of dispatchers, which may be behind that of the database. */
const clockToleranceMs = 24 * 3_600_000

/**
 * How the deliveries of these events stand, by the number of the event; without those that go to more webhooks. Each delivery is
 * one look-up in each small table and one among its attempts, in the partitions from the time of the event on.
 */
export const countOutcomes = async (
  db: Database,
  orgId: OrgId,
  events: readonly { sequence: string; created_at: Date }[],
): Promise<Map<string, OutcomesRow>> => {
  const oldest = events.map(({ created_at }) => uuid7Floor(Math.max(0, created_at.getTime() - clockToleranceMs)))
  const rows = await db<(OutcomesRow & { sequence: string })[]>`
    select n.sequence, count(*) filter (where d.state = 'succeeded')::int as succeeded,
      count(*) filter (where d.state = 'failing')::int as failing, count(*) filter (where d.state = 'failed')::int as failed,
      count(*) filter (where d.state = 'waiting')::int as waiting, count(*) filter (where d.state = 'expired')::int as expired
    from unnest(${events.map(({ sequence }) => sequence)}::bigint[], ${oldest}::uuid[]) as n (sequence, oldest)
    cross join lateral (
      select e.seq from keyhook.events e where e.org_id = ${orgId} and e.sequence = n.sequence limit 1
    ) e
    left join lateral (
      select case
          when f.lane_id is null and l.ended_at is not null and last.status is distinct from 'succeeded' then 'failed'
          when f.lane_id is not null or r.lane_id is not null
            then case when last.status <> 'succeeded' then 'failing' else 'waiting' end
          when last.status is not null then case last.status when 'succeeded' then last.status else 'failed' end
          when l.cursor_seq >= e.seq then 'expired'
          else 'waiting'
        end as state
      from (
        select lane_id from keyhook.deliveries
        where org_id = ${orgId} and event_seq = e.seq limit ${deliveriesCounted + 1}
      ) d
      join keyhook.lanes l on l.id = d.lane_id
      left join keyhook.in_flight f on f.lane_id = d.lane_id and f.event_seq = e.seq
      left join keyhook.retries r on r.lane_id = d.lane_id and r.event_seq = e.seq
      left join lateral (
        select a.status from keyhook.attempts a
        where a.lane_id = d.lane_id and a.event_seq = e.seq and a.id >= n.oldest
        order by a.attempt desc limit 1
      ) last on true
    ) d on true
    group by n.sequence
    having count(d.state) <= ${deliveriesCounted}::int`
  return new Map(rows.map(({ sequence, ...counts }) => [sequence, counts]))
}

/** Attempts that one summary counts at most, in equal shares of the webhooks: about 0.2 s of PostgreSQL. */
export const attemptsSummarizedMax = 100_000

export type OutcomeRow = {
  /** Start of the interval in seconds since 1970; null in other rows. */
  at: string | null
  webhook_id: WebhookId | null
  succeeded: number
  failed: number
  p50_us: number | null
  p95_us: number | null
  /** Set where not all were counted: the oldest that was. */
  cut_at: Date | null
}

/**
 * Outcomes and durations: one row for all, one for each interval and one for each webhook with attempts. The newest attempts of
 * each webhook are read in the order of their index; their number is limited, so a busy organization costs no more than this. Where
 * one webhook was cut, all are counted from there on.
 */
export const summarizeAttempts = (
  db: Database,
  orgId: OrgId,
  request: { webhookId: WebhookId | null; sinceMs: number; untilMs: number; bucketSeconds: number },
  attemptsMax = attemptsSummarizedMax,
) => {
  const { webhookId, sinceMs, untilMs, bucketSeconds } = request
  return db<OutcomeRow[]>`
    with hooks as materialized (
      select id, lane_id from keyhook.webhooks
      where org_id = ${orgId} and deleted_at is null and (${webhookId}::text is null or id = ${webhookId})
    ), share as materialized (
      select greatest(10, ${attemptsMax}::int / greatest(1, count(*)))::int as attempts from hooks
    ), counted as materialized (
      select h.id as webhook_id, a.*, row_number() over (partition by h.id order by a.id desc) as place,
        (floor(extract(epoch from a.started_at) / ${bucketSeconds}::int) * ${bucketSeconds}::int)::bigint as at
      from hooks h
      cross join lateral (
        select a.id, a.status, a.duration_us, a.started_at from keyhook.attempts a
        where a.lane_id = h.lane_id and a.id >= ${uuid7Floor(Math.max(0, sinceMs))}::uuid
          and a.id < ${uuid7Floor(Math.max(0, untilMs))}::uuid
        order by a.id desc limit (select attempts from share)
      ) a
    ), cut as materialized (
      select max(started_at) filter (where place = (select attempts from share)) as cut_at from counted
    )
    select at, webhook_id, count(*) filter (where status = 'succeeded')::int as succeeded,
      count(*) filter (where status <> 'succeeded')::int as failed,
      percentile_disc(0.5) within group (order by duration_us) as p50_us,
      percentile_disc(0.95) within group (order by duration_us) as p95_us,
      (select cut_at from cut) as cut_at
    from counted
    where started_at >= coalesce((select cut_at from cut), '-infinity')
    group by grouping sets ((), (at), (webhook_id))
    order by at`
}
