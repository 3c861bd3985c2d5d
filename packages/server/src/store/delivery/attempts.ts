import type { PendingQuery, Row } from 'postgres'
import { type Database, isUniqueViolation } from '../database.ts'
import { plainArray, textArray } from './arrays.ts'

export type SettledAttempt = {
  laneId: number
  token: number
  eventSeq: number
  attemptId: string
  attempt: number
  startedAtMs: number
  begunNo: number
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

/**
 * Writes down what came of attempts, and puts those that are to be tried again in line, in one step. Compares the lease that
 * each was begun under: a sender that was paused past it records nothing. Nor is an attempt recorded whose beginning the server
 * does not know, because it took over without it: its event's number may be another event's by now. Where the lane changes hands in the middle of the
 * statement, whoever comes first has recorded the attempt: its id is the key. Says how many were ours to settle.
 */
export const settleAttempts = async (db: Database, settled: readonly SettledAttempt[]): Promise<number> => {
  try {
    return await write(db, settled, db``)
  } catch (error) {
    // Said twice, or already recorded by the next holder. To provide for it every time would cost a fifth of the statement.
    if (!isUniqueViolation(error, /^attempts_.*pkey$/)) throw error
    return write(db, settled, db`on conflict do nothing`)
  }
}

type Fragment = PendingQuery<Row[]>

async function write(db: Database, settled: readonly SettledAttempt[], onConflict: Fragment): Promise<number> {
  const waiting = settled.filter((one) => one.retryMs !== null)
  if (waiting.length === 0) return (await record(db, settled, onConflict)).count
  const [row] = await db<{ count: number }[]>`
    with recorded as (
      ${record(db, settled, onConflict)}
      returning org_id, lane_id, event_seq, attempt, id, next_attempt_at
    ), waiting as (
      insert into keyhook.retries (org_id, lane_id, event_seq, due_at, attempt, try)
      select r.org_id, r.lane_id, r.event_seq, r.next_attempt_at, r.attempt, w.tries
      from recorded r
      join unnest(
        ${plainArray(waiting.map((one) => one.attemptId))}::uuid[], ${plainArray(waiting.map((one) => one.tries))}::int[]
      ) as w (id, tries) on w.id = r.id
      where r.next_attempt_at is not null
      on conflict do nothing
    )
    select count(*)::int as count from recorded`
  return row!.count
}

/**
 * Of a webhook that is deleted nothing is tried again. Most attempts are of one kind, answered well on a connection that was
 * there: then a third of the columns is empty, and is not sent.
 */
function record(db: Database, settled: readonly SettledAttempt[], onConflict: Fragment) {
  const plain = (column: (one: SettledAttempt) => number | string | null) => plainArray(settled.map(column))
  const text = (column: (one: SettledAttempt) => string | null) => textArray(db, settled.map(column))
  const connecting = settled.some((one) => one.dnsUs !== null || one.connectUs !== null || one.tlsUs !== null)
    ? {
        names: db`, dns_us, connect_us, tls_us`,
        columns: db`, ${plain((one) => one.dnsUs)}::int[], ${plain((one) => one.connectUs)}::int[], ${plain((one) => one.tlsUs)}::int[]`,
        instead: db``,
      }
    : {
        names: db``,
        columns: db``,
        instead: db`cross join (select null::int as dns_us, null::int as connect_us, null::int as tls_us) warm`,
      }
  const trouble = settled.some((one) => one.errorCode !== null || one.retryMs !== null)
    ? {
        names: db`, error_code, error_detail, retry_ms`,
        columns: db`, ${plain((one) => one.errorCode)}::text[], ${text((one) => one.errorDetail)}, ${plain((one) => one.retryMs)}::bigint[]`,
        instead: db``,
      }
    : {
        names: db``,
        columns: db``,
        instead: db`cross join (select null as error_code, null as error_detail, null::bigint as retry_ms) well`,
      }
  return db`
    insert into keyhook.attempts (
      org_id, lane_id, id, event_seq, attempt, status, started_at, duration_us, dns_us, connect_us, tls_us, first_byte_us,
      address, request_headers, response_status, response_headers, response_body, response_complete, error_code,
      error_detail, next_attempt_at
    )
    select l.org_id, lane_id, id, event_seq, attempt, status, to_timestamp(started_ms::float8 / 1000), duration_us,
      dns_us, connect_us, tls_us, first_byte_us, address, request_headers, response_status, response_headers, response_body,
      response_complete, error_code, error_detail,
      case when l.ended_at is null then now() + retry_ms * interval '1 millisecond' end
    from unnest(
      ${plain((one) => one.laneId)}::bigint[], ${plain((one) => one.token)}::bigint[],
      ${plain((one) => one.attemptId)}::uuid[], ${plain((one) => one.eventSeq)}::bigint[],
      ${plain((one) => one.attempt)}::int[], ${plain((one) => one.status)}::text[],
      ${plain((one) => one.startedAtMs)}::bigint[], ${plain((one) => one.begunNo)}::bigint[],
      ${plain((one) => one.durationUs)}::int[],
      ${plain((one) => one.firstByteUs)}::int[], ${plain((one) => one.address)}::text[],
      ${text((one) => one.requestHeaders)}, ${plain((one) => one.responseStatus)}::int[],
      ${text((one) => one.responseHeaders)}, ${text((one) => one.responseBody)},
      ${plain((one) => (one.responseComplete === null ? null : String(one.responseComplete)))}::boolean[]
      ${connecting.columns} ${trouble.columns}
    ) as i (
      lane_id, token, id, event_seq, attempt, status, started_ms, begun_no, duration_us, first_byte_us, address,
      request_headers, response_status, response_headers, response_body, response_complete
      ${connecting.names} ${trouble.names}
    )
    ${connecting.instead} ${trouble.instead}
    -- By the id alone, which no two lanes share, and each for itself (\`offset 0\`): a planner without statistics would
    -- otherwise go through all lanes of the organization for every attempt.
    cross join lateral (
      select l.org_id, l.lease_token, l.begun_no, l.ended_at from keyhook.lanes l where l.id = i.lane_id offset 0
    ) l
    where l.lease_token = i.token and l.begun_no >= i.begun_no
    ${onConflict}`
}
