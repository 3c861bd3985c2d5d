import type { Database } from '../../db/database.ts'
import type { OrgId, WebhookId } from '../../kernel/ids.ts'
import { uuid7Floor } from '../../kernel/uuid7.ts'

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
 * each webhook are read in the order of their index; their number is limited, so a busy organization costs no more than this.
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
    )
    select at, webhook_id, count(*) filter (where status = 'succeeded')::int as succeeded,
      count(*) filter (where status <> 'succeeded')::int as failed,
      percentile_disc(0.5) within group (order by duration_us) as p50_us,
      percentile_disc(0.95) within group (order by duration_us) as p95_us,
      max(started_at) filter (where place = (select attempts from share)) as cut_at
    from counted
    group by grouping sets ((), (at), (webhook_id))
    order by at`
}
