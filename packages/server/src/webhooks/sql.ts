import type { Database, PageRequest, Transaction } from '../db/database.ts'
import { copyVersion, endLane, endLanesOf, insertLane, probeNow } from '../delivery/lane-sql.ts'
import { type OrgId, type UserId, uuid7Floor, type WebhookId } from '../lib/ids.ts'
import type { Sealed } from '../lib/master-keys.ts'
import { findLastRotations } from './secrets-sql.ts'

export type NewWebhook = {
  id: WebhookId
  url: string
  eventTypes: readonly string[]
  secret: Sealed
  createdBy: UserId
}

export type WebhookRow = { id: WebhookId; url: string; event_types: string[]; created_at: Date }

/** Inserts unless the organization already has `webhooksMax`. Call it with the organization locked. */
export const insertWebhook = async (tx: Transaction, orgId: OrgId, webhook: NewWebhook, webhooksMax: number) => {
  const [row] = await tx<WebhookRow[]>`
    insert into keyhook.webhooks (org_id, id, url, event_types, secret_key_id, secret_box, created_by)
    select ${orgId}, ${webhook.id}, ${webhook.url}, ${[...webhook.eventTypes]}::text[],
      ${webhook.secret.keyId}, ${webhook.secret.box}, ${webhook.createdBy}
    where ${webhooksMax} > (
      select count(*) from (
        select from keyhook.webhooks where org_id = ${orgId} and deleted_at is null limit ${webhooksMax}
      ) w
    )
    returning id, url, event_types, created_at`
  if (row === undefined) return null
  await insertLane(tx, orgId, webhook.id)
  return row
}

export const listWebhooks = (db: Database, orgId: OrgId, { before, limit }: PageRequest) => db<WebhookRow[]>`
  select id, url, event_types, created_at
  from keyhook.webhooks
  where org_id = ${orgId} and deleted_at is null and (${before}::text is null or id < ${before})
  order by id desc
  limit ${limit}`

/** Its secrets are erased: a deleted webhook cannot sign again. */
export const deleteWebhook = async (tx: Transaction, orgId: OrgId, id: WebhookId): Promise<boolean> => {
  const deleted = await tx`
    update keyhook.webhooks set deleted_at = clock_timestamp(), secret_box = null, secret_key_id = null,
      old_box = null, old_key_id = null, rotated_at = null, overlap_until = null
    where org_id = ${orgId} and id = ${id} and deleted_at is null`
  if (deleted.count === 0) return false
  await endLane(tx, orgId, id)
  return true
}

/** Of a deleted organization: nothing is signed or sent any more. */
export const deleteWebhooksOf = async (tx: Transaction, orgId: OrgId): Promise<void> => {
  await tx`
    update keyhook.webhooks set deleted_at = clock_timestamp(), secret_box = null, secret_key_id = null,
      old_box = null, old_key_id = null, rotated_at = null, overlap_until = null
    where org_id = ${orgId} and deleted_at is null`
  await endLanesOf(tx, orgId)
}

export type WebhookFields = {
  url: string
  event_types: string[]
  description: string | null
  rate_limit: number | null
}

/** Null for a webhook that does not exist or is deleted. Locked: no other change happens until the transaction ends. */
export const lockWebhook = async (tx: Transaction, orgId: OrgId, id: WebhookId): Promise<WebhookFields | null> => {
  const [row] = await tx<WebhookFields[]>`
    select url, event_types, description, rate_limit from keyhook.webhooks
    where org_id = ${orgId} and id = ${id} and deleted_at is null for no key update`
  return row ?? null
}

/** Call it with the webhook locked. Whether a new URL works is not known: a suspended webhook is tried at once, and stays suspended. */
export const updateWebhook = async (
  tx: Transaction,
  orgId: OrgId,
  id: WebhookId,
  before: WebhookFields,
  { url, event_types, description, rate_limit }: WebhookFields,
): Promise<void> => {
  const typesChanged = event_types.join() !== before.event_types.join()
  await tx`
    with changed as (
      update keyhook.webhooks
      set url = ${url}, event_types = ${event_types}::text[], description = ${description}, rate_limit = ${rate_limit},
        types_since = case when ${typesChanged} then clock_timestamp() else types_since end, version = version + 1
      where org_id = ${orgId} and id = ${id}
      returning lane_id
    )
    insert into keyhook.earlier_urls (lane_id, until, url)
    select lane_id, clock_timestamp(), ${before.url} from changed where ${url !== before.url}`
  await copyVersion(tx, orgId, id)
  if (url !== before.url) await probeNow(tx, orgId, id)
}

type RecordRow = {
  id: WebhookId
  url: string
  event_types: string[]
  description: string | null
  /** Null when it is not paused. */
  paused_until: Date | null
  failing_since: Date | null
  /** Null when it is not suspended. */
  suspended_until: Date | null
  rate_limit: number | null
  /** Null when there is no rotation, or its overlap has ended. */
  overlap_until: Date | null
  rotated_at: Date | null
  switched: boolean
  created_by: UserId
  created_at: Date
  since: Date
  succeeded: number
  failed: number
  failure_id: string | null
  failure_at: Date | null
  failure_code: string | null
  failure_status: number | null
  oldest_waiting_at: Date | null
  waiting: number
  next_attempt_at: Date | null
}

/** `secret_created_at`: of the newest secret; null if it is not known. */
export type WebhookRecordRow = RecordRow & { secret_created_at: Date | null }

const healthMs = 24 * 3_600_000

/** A webhook may have a million attempts a day; its health is counted over the newest of them. */
export const attemptsCounted = 10_000

/** After a long outage a million deliveries may wait; this many are counted of each kind, and in all. */
export const waitingCounted = 10_000

type RecordsRequest = PageRequest & { id?: WebhookId | null; nowMs: number }

/**
 * Webhooks with their health. The cost of each webhook is bounded, whatever its history: at most `attemptsCounted` entries of an
 * index, and single look-ups. Attempts are found by their ids, which are times.
 */
export const listWebhookRecords = (
  db: Database,
  orgId: OrgId,
  request: RecordsRequest,
): Promise<readonly WebhookRecordRow[]> =>
  db.begin(async (tx) => {
    await onlyOrderedScans(tx)
    const rows = await selectRecords(tx, orgId, request)
    const ids = rows.map(({ id }) => id)
    const { rotated, knownSince } = await findLastRotations(tx, orgId, ids)
    return rows.map((row) => {
      const isKnown = knownSince === null || row.created_at > knownSince
      return { ...row, secret_created_at: rotated.get(row.id) ?? (isKnown ? row.created_at : null) }
    })
  })

/** Expecting few rows, the planner would read and sort all attempts of the day before it skips to the first that counts. */
export const onlyOrderedScans = async (tx: Transaction): Promise<void> => {
  await tx`
    select set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'off', true),
      set_config('enable_sort', 'off', true)`
}

export const selectRecords = (tx: Transaction, orgId: OrgId, { id = null, before, limit, nowMs }: RecordsRequest) => tx<
  RecordRow[]
>`
  select w.id, w.url, w.event_types, w.description, w.rate_limit, w.created_by, w.created_at,
    case when l.paused_until > now() then l.paused_until end as paused_until, l.failing_since,
    case when l.suspended_until > now() then l.suspended_until end as suspended_until,
    w.rotated_at, case when w.overlap_until > now() then w.overlap_until end as overlap_until, w.switched,
    coalesce(oldest.started_at, to_timestamp(${nowMs - healthMs} / 1000.0)) as since,
    (total.count - bad.failed - bad.interrupted)::int as succeeded, bad.failed::int as failed,
    failure.id as failure_id, failure.started_at as failure_at, failure.error_code as failure_code,
    failure.response_status as failure_status, waiting.created_at as oldest_waiting_at,
    least(queue.first_attempts + queue.retries + queue.in_flight, ${waitingCounted}::int)::int as waiting,
    greatest(case
      when l.suspended_until > now() then
        case when next.first_seq is not null or next.retry_at is not null then greatest(l.probe_at, now()) end
      else least(
        (select e.created_at from keyhook.events e where e.org_id = w.org_id and e.seq = next.first_seq), next.retry_at
      )
    end, case when l.paused_until > now() and (next.first_seq is not null or next.retry_at is not null) then l.paused_until end)
      as next_attempt_at
  from (
    select * from keyhook.webhooks
    where org_id = ${orgId} and deleted_at is null and (${before}::text is null or id < ${before})
      and (${id}::text is null or id = ${id})
    order by id desc
    limit ${limit}
  ) w
  join keyhook.lanes l on l.id = w.lane_id
  left join lateral (
    select a.id, a.started_at from keyhook.attempts a
    where a.lane_id = w.lane_id and a.id >= ${uuid7Floor(nowMs - healthMs)}::uuid
    order by a.id desc limit 1 offset ${attemptsCounted - 1}
  ) oldest on true
  cross join lateral (select coalesce(oldest.id, ${uuid7Floor(nowMs - healthMs)}::uuid) as id) first
  cross join lateral (
    select count(*) from keyhook.attempts a where a.lane_id = w.lane_id and a.id >= first.id
  ) total
  cross join lateral (
    select count(*) filter (where a.status = 'failed') as failed, count(*) filter (where a.status = 'interrupted') as interrupted
    from keyhook.attempts a
    where a.lane_id = w.lane_id and a.status <> 'succeeded' and a.status in ('failed', 'interrupted') and a.id >= first.id
  ) bad
  left join lateral (
    select a.id, a.started_at, a.error_code, a.response_status from keyhook.attempts a
    where a.lane_id = w.lane_id and a.status <> 'succeeded' and a.status = 'failed'
    order by a.id desc limit 1
  ) failure on true
  -- Not finished: first attempts after the cursor, retries, and what is in flight. Sequence numbers are in the order of time.
  left join lateral (
    select e.created_at from keyhook.events e
    where e.org_id = w.org_id and e.seq = least(
      (select d.event_seq from keyhook.deliveries d where d.lane_id = l.id and d.event_seq > l.cursor_seq
        order by d.event_seq limit 1),
      (select r.event_seq from keyhook.retries r where r.lane_id = l.id order by r.event_seq limit 1),
      (select f.event_seq from keyhook.in_flight f where f.lane_id = l.id order by f.event_seq limit 1)
    )
  ) waiting on true
  cross join lateral (
    select (select count(*) from (
        select from keyhook.deliveries d where d.lane_id = l.id and d.event_seq > l.cursor_seq limit ${waitingCounted}
      ) d) as first_attempts,
      (select count(*) from (select from keyhook.retries r where r.lane_id = l.id limit ${waitingCounted}) r) as retries,
      (select count(*) from keyhook.in_flight f where f.lane_id = l.id) as in_flight
  ) queue
  cross join lateral (
    select (select d.event_seq from keyhook.deliveries d where d.lane_id = l.id and d.event_seq > l.cursor_seq
        order by d.event_seq limit 1) as first_seq,
      (select r.due_at from keyhook.retries r where r.lane_id = l.id order by r.due_at limit 1) as retry_at
  ) next
  order by w.id desc`

/** Null for a webhook that does not exist or is deleted. */
export const findWebhookRecord = async (db: Database, orgId: OrgId, id: WebhookId, nowMs: number) => {
  const [row] = await listWebhookRecords(db, orgId, { id, before: null, limit: 1, nowMs })
  return row ?? null
}
