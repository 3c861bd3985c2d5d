import type { Database } from '../../db/database.ts'
import type { OrgId, WebhookId } from '../../kernel/ids.ts'
import { uuid7Floor } from '../../kernel/uuid7.ts'
import type { HistoryRow } from './history.ts'

export type OrganizationAttemptRow = HistoryRow & { webhook_id: WebhookId; url: string }

export type AttemptFilter = {
  webhookId: WebhookId | null
  status: string | null
  types: readonly string[] | null
  sinceMs: number | null
  untilMs: number | null
  /** One attempt only. */
  id?: string | null
}

const afterAllIds = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

/** The ids of a time range: ids are times. */
const idsOf = ({ sinceMs, untilMs }: { sinceMs: number | null; untilMs: number | null }) => ({
  first: sinceMs === null ? uuid7Floor(0) : uuid7Floor(sinceMs),
  end: untilMs === null ? afterAllIds : uuid7Floor(untilMs),
})

/**
 * Attempts to all webhooks of the organization, newest first. Each webhook gives its newest ones from an index in that order, so a
 * page costs as many rows as it has, times the number of webhooks. Failed and interrupted attempts have an index of their own;
 * another filter that few attempts pass reads the time range.
 */
export const listOrganizationAttempts = (
  db: Database,
  orgId: OrgId,
  { webhookId, status, types, id = null, ...range }: AttemptFilter,
  { before, limit }: { before: string | null; limit: number },
) => {
  const { first, end } = idsOf(range)
  const below = before !== null && before < end ? before : end
  return db<OrganizationAttemptRow[]>`
    select r.*, w.id as webhook_id, w.url, e.id as event_id, e.type as event_type
    from keyhook.webhooks w
    cross join lateral (
      (
        select a.id, a.event_seq, a.attempt, a.status, a.started_at, a.duration_us, a.dns_us, a.connect_us, a.tls_us,
          a.first_byte_us, a.address, a.request_headers, a.response_status, a.response_headers, a.response_body,
          a.response_complete, a.error_code, a.error_detail, a.next_attempt_at
        from keyhook.attempts a
        where a.lane_id = w.lane_id and a.id < ${below}::uuid and a.id >= ${first}::uuid
          and (${id}::uuid is null or a.id = ${id}::uuid) and (${status}::text is null or a.status = ${status})
          and (${types}::text[] is null or exists (
            select from keyhook.events e where e.org_id = ${orgId} and e.seq = a.event_seq and e.type = any (${types})
          ))
        order by a.id desc limit ${limit}
      )
      union all
      (
        select f.id, f.event_seq, f.attempt, 'sending', f.started_at, null, null, null, null, null, null,
          null, null, null, null, null, null, null, null
        from keyhook.in_flight f
        where f.lane_id = w.lane_id and f.id < ${below}::uuid and f.id >= ${first}::uuid
          and (${id}::uuid is null or f.id = ${id}::uuid) and (${status}::text is null or ${status} = 'sending')
          and (${types}::text[] is null or exists (
            select from keyhook.events e where e.org_id = ${orgId} and e.seq = f.event_seq and e.type = any (${types})
          ))
        order by f.id desc limit ${limit}
      )
    ) r
    join keyhook.events e on e.org_id = ${orgId} and e.seq = r.event_seq
    where w.org_id = ${orgId} and w.deleted_at is null and (${webhookId}::text is null or w.id = ${webhookId})
    order by r.id desc
    limit ${limit}`
}

export type OutcomeRow = {
  /** Start of the interval in seconds since 1970; null in other rows. */
  at: string | null
  webhook_id: WebhookId | null
  succeeded: number
  failed: number
  p50_us: number | null
  p95_us: number | null
  oldest_at: Date | null
}

/** A webhook may have a million attempts a day; a summary counts the newest of them. */
export const attemptsSummarized = 10_000

/** Outcomes and durations: one row for all, one for each interval and one for each webhook with attempts. */
export const summarizeAttempts = (
  db: Database,
  orgId: OrgId,
  request: { webhookId: WebhookId | null; sinceMs: number; untilMs: number; bucketSeconds: number },
) => {
  const { first, end } = idsOf(request)
  const { webhookId, bucketSeconds } = request
  return db<OutcomeRow[]>`
    with counted as materialized (
      select w.id as webhook_id, a.status, a.duration_us, a.started_at,
        (floor(extract(epoch from a.started_at) / ${bucketSeconds}) * ${bucketSeconds})::bigint as at
      from keyhook.webhooks w
      cross join lateral (
        select status, duration_us, started_at from keyhook.attempts
        where lane_id = w.lane_id and id >= ${first}::uuid and id < ${end}::uuid
        order by id desc limit ${attemptsSummarized}
      ) a
      where w.org_id = ${orgId} and w.deleted_at is null and (${webhookId}::text is null or w.id = ${webhookId})
    )
    select at, webhook_id, count(*) filter (where status = 'succeeded')::int as succeeded,
      count(*) filter (where status <> 'succeeded')::int as failed,
      percentile_disc(0.5) within group (order by duration_us) as p50_us,
      percentile_disc(0.95) within group (order by duration_us) as p95_us, min(started_at) as oldest_at
    from counted
    group by grouping sets ((), (at), (webhook_id))
    order by at`
}
