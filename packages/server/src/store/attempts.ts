import type { OrgId } from '../kernel/ids.ts'
import { plainArray, textArray } from './array-literal.ts'
import type { Database } from './database.ts'

export type SettledAttempt = {
  laneId: number
  orgId: OrgId
  token: number
  eventSeq: number
  attemptId: string
  status: 'succeeded' | 'failed' | 'interrupted'
  durationUs: number | null
  dnsUs: number | null
  connectUs: number | null
  tlsUs: number | null
  firstByteUs: number | null
  address: string | null
  requestHeaders: string
  responseStatus: number | null
  responseHeaders: string | null
  responseBody: string | null
  responseComplete: boolean | null
  errorCode: string | null
  errorDetail: string | null
  /** Tries since the schedule began, this one included. */
  tries: number
  /** Milliseconds until the next try; null when the delivery is finished. */
  retryMs: number | null
}

const columnsOf = (settled: readonly SettledAttempt[]) => ({
  laneId: plainArray(settled.map((one) => one.laneId)),
  orgId: plainArray(settled.map((one) => one.orgId)),
  token: plainArray(settled.map((one) => one.token)),
  eventSeq: plainArray(settled.map((one) => one.eventSeq)),
  attemptId: plainArray(settled.map((one) => one.attemptId)),
  status: plainArray(settled.map((one) => one.status)),
  durationUs: plainArray(settled.map((one) => one.durationUs)),
  dnsUs: plainArray(settled.map((one) => one.dnsUs)),
  connectUs: plainArray(settled.map((one) => one.connectUs)),
  tlsUs: plainArray(settled.map((one) => one.tlsUs)),
  firstByteUs: plainArray(settled.map((one) => one.firstByteUs)),
  address: plainArray(settled.map((one) => one.address)),
  requestHeaders: textArray(settled.map((one) => one.requestHeaders)),
  responseStatus: plainArray(settled.map((one) => one.responseStatus)),
  responseHeaders: textArray(settled.map((one) => one.responseHeaders)),
  responseBody: textArray(settled.map((one) => one.responseBody)),
  responseComplete: plainArray(
    settled.map((one) => (one.responseComplete === null ? null : String(one.responseComplete))),
  ),
  errorCode: plainArray(settled.map((one) => one.errorCode)),
  errorDetail: textArray(settled.map((one) => one.errorDetail)),
})

/*
 * Both statements compare the lease that the attempt was begun under, in the row that they take away or change: a sender
 * that was paused past its lease finds nothing to settle, and records nothing. An attempt moves from `unsettled` to
 * `attempts` in one step, so a reader of both always sees it exactly once.
 */

/** Attempts after which their delivery is finished, well or badly. Says how many were still ours to settle. */
export const settleFinished = async (db: Database, settled: readonly SettledAttempt[]): Promise<number> => {
  const c = columnsOf(settled)
  const result = await db`
    with input as materialized (
      select * from unnest(
        ${c.laneId}::bigint[], ${c.orgId}::text[], ${c.token}::bigint[], ${c.eventSeq}::bigint[], ${c.attemptId}::uuid[],
        ${c.status}::text[], ${c.durationUs}::int[], ${c.dnsUs}::int[], ${c.connectUs}::int[], ${c.tlsUs}::int[],
        ${c.firstByteUs}::int[], ${c.address}::text[], ${c.requestHeaders}::text[], ${c.responseStatus}::int[],
        ${c.responseHeaders}::text[], ${c.responseBody}::text[], ${c.responseComplete}::boolean[],
        ${c.errorCode}::text[], ${c.errorDetail}::text[]
      ) as i (
        lane_id, org_id, token, event_seq, id, status, duration_us, dns_us, connect_us, tls_us, first_byte_us, address,
        request_headers, response_status, response_headers, response_body, response_complete, error_code, error_detail
      )
    ), gone as (
      delete from keyhook.unsettled u using input i
      where u.lane_id = i.lane_id and u.event_seq = i.event_seq and u.org_id = i.org_id
        and u.attempt_id = i.id and u.lease_token = i.token and u.due_at = '-infinity'
      returning i.*, u.attempt, u.started_at
    )
    insert into keyhook.attempts (
      org_id, lane_id, id, event_seq, attempt, status, started_at, duration_us, dns_us, connect_us, tls_us, first_byte_us,
      address, request_headers, response_status, response_headers, response_body, response_complete, error_code, error_detail
    )
    select org_id, lane_id, id, event_seq, attempt, status, started_at, duration_us, dns_us, connect_us, tls_us,
      first_byte_us, address, request_headers, response_status, response_headers, response_body,
      response_complete, error_code, error_detail
    from gone`
  return result.count
}

/** Attempts after which their delivery waits in the lane for its next try. */
export const settleForRetry = async (db: Database, settled: readonly SettledAttempt[]): Promise<number> => {
  const c = columnsOf(settled)
  const result = await db`
    with input as materialized (
      select * from unnest(
        ${c.laneId}::bigint[], ${c.orgId}::text[], ${c.token}::bigint[], ${c.eventSeq}::bigint[], ${c.attemptId}::uuid[],
        ${c.status}::text[], ${c.durationUs}::int[], ${c.dnsUs}::int[], ${c.connectUs}::int[], ${c.tlsUs}::int[],
        ${c.firstByteUs}::int[], ${c.address}::text[], ${c.requestHeaders}::text[], ${c.responseStatus}::int[],
        ${c.responseHeaders}::text[], ${c.responseBody}::text[], ${c.responseComplete}::boolean[],
        ${c.errorCode}::text[], ${c.errorDetail}::text[],
        ${plainArray(settled.map((one) => one.tries))}::int[], ${plainArray(settled.map((one) => one.retryMs))}::bigint[]
      ) as i (
        lane_id, org_id, token, event_seq, id, status, duration_us, dns_us, connect_us, tls_us, first_byte_us, address,
        request_headers, response_status, response_headers, response_body, response_complete, error_code, error_detail,
        tries, retry_ms
      )
    ), waiting as (
      update keyhook.unsettled u
      set due_at = now() + i.retry_ms * interval '1 millisecond', try = i.tries
      from input i
      where u.lane_id = i.lane_id and u.event_seq = i.event_seq and u.org_id = i.org_id
        and u.attempt_id = i.id and u.lease_token = i.token and u.due_at = '-infinity'
      returning i.*, u.attempt, u.started_at, u.due_at
    )
    insert into keyhook.attempts (
      org_id, lane_id, id, event_seq, attempt, status, started_at, duration_us, dns_us, connect_us, tls_us, first_byte_us,
      address, request_headers, response_status, response_headers, response_body, response_complete, error_code,
      error_detail, next_attempt_at
    )
    select w.org_id, w.lane_id, w.id, w.event_seq, w.attempt, w.status, w.started_at, w.duration_us, w.dns_us, w.connect_us,
      w.tls_us, w.first_byte_us, w.address, w.request_headers, w.response_status, w.response_headers, w.response_body,
      w.response_complete, w.error_code, w.error_detail, case when l.ended_at is null then w.due_at end
    from waiting w join keyhook.lanes l on l.id = w.lane_id and l.org_id = w.org_id`
  return result.count
}
