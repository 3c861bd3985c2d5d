import type { Database } from '../db/database.ts'
import { type OrgId, uuid7Floor, type WebhookId } from '../lib/ids.ts'
import { columnsInFlight, columnsOfEnded, type HistoryRow } from './history-sql.ts'

/** Attempts of each webhook that a search looks at, in the order of an index. */
export const attemptsSearchedMax = 100_000

/** Events up to which a type is rare: then its attempts are found from its events, in up to 20 ms for each webhook. */
export const rareEventsMax = 1_000

export type OrganizationAttemptRow = HistoryRow & { webhook_id: WebhookId; url: string }

export type AttemptFilter = {
  webhookId: WebhookId | null
  status: HistoryRow['status'] | null
  types: readonly string[] | null
  eventId: string | null
  /** The HTTP status of the answer, from and to; `none`: failed without an answer. */
  responseStatus: { from: number; to: number } | 'none' | null
  errorCode: string | null
  sinceMs: number | null
  untilMs: number | null
}

const lastMs = 2 ** 48 - 1

/**
 * Attempts to all webhooks of the organization, newest first. The ids are found first, a few of each webhook, by the index that
 * fits the filter; only those of this page are read with their bodies.
 */
export const listOrganizationAttempts = async (
  db: Database,
  orgId: OrgId,
  filter: AttemptFilter,
  page: { before: string | null; limit: number },
): Promise<OrganizationAttemptRow[]> => {
  const { eventId, types } = filter
  const isRare = eventId !== null || (types !== null && (await isRareType(db, orgId, types)))
  return attemptsOfPage(db, orgId, { ...filter, isRare }, page)
}

const isRareType = async (db: Database, orgId: OrgId, types: readonly string[]): Promise<boolean> => {
  const rows = await db`
    select from keyhook.events where org_id = ${orgId} and type = any (${types}) limit ${rareEventsMax + 1}`
  return rows.count <= rareEventsMax
}

export const attemptsOfPage = (
  db: Database,
  orgId: OrgId,
  {
    webhookId,
    types,
    eventId,
    responseStatus,
    errorCode,
    sinceMs,
    untilMs,
    isRare,
    ...filter
  }: AttemptFilter & {
    isRare: boolean
  },
  { before, limit }: { before: string | null; limit: number },
) => {
  // Before 1970 there are no ids.
  const since = uuid7Floor(Math.max(0, sinceMs ?? 0))
  const until = uuid7Floor(Math.max(0, untilMs ?? lastMs))
  const inRange = db`id >= ${since}::uuid and id < least(${until}::uuid, ${before}::uuid)`
  // A request that is in flight has neither an answer nor an error.
  const isEnded = responseStatus !== null || errorCode !== null
  const status = filter.status ?? impliedStatus(responseStatus, errorCode)
  // What did not succeed has an index of its own. Successes are most of a history: there, those that were not are passed over.
  const byIndex =
    status === null || status === 'succeeded' ? db`` : db`and status = ${status} and status <> 'succeeded'`
  const hasStatus = status === null ? db`true` : db`a.status = ${status}`
  const hasAnswer =
    responseStatus === null
      ? db`true`
      : responseStatus === 'none'
        ? db`a.status = 'failed' and a.response_status is null`
        : db`a.response_status between ${responseStatus.from} and ${responseStatus.to}`
  const hasError = errorCode === null ? db`true` : db`a.error_code = ${errorCode}`
  const outcome = db`${hasStatus} and ${hasAnswer} and ${hasError}`
  const isEvent = eventId === null ? db`true` : db`e.id = ${eventId}`
  const ofEvent = types === null ? isEvent : db`${isEvent} and e.type = any (${types})`
  const hasEvent =
    types === null && eventId === null
      ? db`true`
      : db`exists (select from keyhook.events e where e.org_id = ${orgId} and e.seq = a.event_seq and ${ofEvent})`
  // `offset 0`: one look-up by event for each, never a scan of the webhook's history.
  const ended = isRare
    ? db`
      select a.id from keyhook.events e cross join lateral (
        select id, status, response_status, error_code from keyhook.attempts
        where lane_id = h.lane_id and event_seq = e.seq and ${inRange} offset 0
      ) a
      where e.org_id = ${orgId} and ${ofEvent} and ${outcome}`
    : db`
      select a.id from (
        select id, status, event_seq, response_status, error_code from keyhook.attempts
        where lane_id = h.lane_id and ${inRange} ${byIndex}
        order by id desc limit ${attemptsSearchedMax}
      ) a
      where ${outcome} and ${hasEvent}`
  return db<OrganizationAttemptRow[]>`
    with hooks as materialized (
      select id, lane_id, url from keyhook.webhooks
      where org_id = ${orgId} and deleted_at is null and (${webhookId}::text is null or id = ${webhookId})
    ), found as materialized (
      select h.id as webhook_id, h.lane_id, h.url, r.id
      from hooks h cross join lateral (
        (${ended} order by a.id desc limit ${limit})
        union all
        (
          select a.id from (
            select id, event_seq from keyhook.in_flight
            where lane_id = h.lane_id and ${inRange} and coalesce(${status}, 'sending') = 'sending' and not ${isEnded}::boolean
          ) a
          where ${hasEvent}
          order by a.id desc limit ${limit}
        )
      ) r
      order by r.id desc limit ${limit}
    )
    select x.webhook_id, x.url, x.id, coalesce(a.attempt, f.attempt) as attempt, coalesce(a.status, 'sending') as status,
      coalesce(a.started_at, f.started_at) as started_at, a.duration_us, a.dns_us, a.connect_us, a.tls_us, a.first_byte_us,
      a.address, a.request_headers, a.response_status, a.response_headers, a.response_body, a.response_complete,
      a.error_code, a.error_detail, a.next_attempt_at, coalesce(a.redelivered, f.redelivered) as redelivered,
      e.id as event_id, e.type as event_type, (
        select u.url from keyhook.earlier_urls u
        where u.lane_id = x.lane_id and u.until > coalesce(a.started_at, f.started_at) order by u.until limit 1
      ) as earlier_url
    from found x
    left join keyhook.attempts a on a.lane_id = x.lane_id and a.id = x.id
    left join keyhook.in_flight f on f.lane_id = x.lane_id and f.id = x.id
    join keyhook.events e on e.org_id = ${orgId} and e.seq = coalesce(a.event_seq, f.event_seq)
    order by x.id desc`
}

/** The status that every such attempt has: those that did not succeed are found by an index. */
function impliedStatus(answer: AttemptFilter['responseStatus'], errorCode: string | null): HistoryRow['status'] | null {
  if (errorCode !== null) return errorCode === 'interrupted' ? 'interrupted' : 'failed'
  const isFailure = answer === 'none' || (answer !== null && (answer.from > 299 || answer.to < 200))
  return isFailure ? 'failed' : null
}

/** One attempt, whichever webhook it was for. Null if it is not in the organization, or its webhook is deleted. */
export const findOrganizationAttempt = async (db: Database, orgId: OrgId, uuid: string) => {
  const [row] = await db<OrganizationAttemptRow[]>`
    with ended as (
      select a.* from keyhook.webhooks w join keyhook.attempts a on a.lane_id = w.lane_id and a.id = ${uuid}::uuid
      where w.org_id = ${orgId} and w.deleted_at is null
    ), flying as (
      select f.* from keyhook.webhooks w join keyhook.in_flight f on f.lane_id = w.lane_id
      where w.org_id = ${orgId} and w.deleted_at is null and f.id = ${uuid}::uuid
    ), one as (
      select lane_id, ${columnsOfEnded(db)} from ended
      union all
      select lane_id, ${columnsInFlight(db)} from flying
    )
    select o.*, w.id as webhook_id, w.url, e.id as event_id, e.type as event_type, (
        select u.url from keyhook.earlier_urls u where u.lane_id = o.lane_id and u.until > o.started_at order by u.until limit 1
      ) as earlier_url
    from one o
    join keyhook.webhooks w on w.org_id = ${orgId} and w.lane_id = o.lane_id
    join keyhook.events e on e.org_id = ${orgId} and e.seq = o.event_seq`
  return row ?? null
}
