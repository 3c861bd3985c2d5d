import type { PendingQuery, Row } from 'postgres'
import { type Database, isUniqueViolation } from '../database.ts'
import { plainArray, textArray } from './arrays.ts'
import type { BegunAttempt } from './beginnings.ts'

/** Headers as they are recorded; the body as text, cut at the cap. `complete` is false when more came or should have come. */
type RecordedResponse = { status: number; headers: string; body: string; complete: boolean }

export type AttemptOutcome = {
  status: 'succeeded' | 'failed' | 'interrupted'
  durationUs: number | null
  dnsUs: number | null
  connectUs: number | null
  tlsUs: number | null
  firstByteUs: number | null
  address: string | null
  response: RecordedResponse | null
  error: { code: string; detail: string | null } | null
}

export type SettledAttempt = {
  begun: BegunAttempt
  requestHeaders: string
  outcome: AttemptOutcome
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

/** A process that was stopped in the middle, or a machine, measures hours; the column ends after 35 minutes. */
const storable = (us: number | null): number | null => (us === null ? null : Math.min(us, 2 ** 31 - 1))

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
        ${plainArray(waiting.map((one) => one.begun.attemptId))}::uuid[], ${plainArray(waiting.map((one) => one.tries))}::int[]
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
  const took = (time: (outcome: AttemptOutcome) => number | null) => plain(({ outcome }) => storable(time(outcome)))
  const connecting = settled.some(
    ({ outcome }) => outcome.dnsUs !== null || outcome.connectUs !== null || outcome.tlsUs !== null,
  )
    ? {
        names: db`, dns_us, connect_us, tls_us`,
        columns: db`, ${took((one) => one.dnsUs)}::int[], ${took((one) => one.connectUs)}::int[], ${took((one) => one.tlsUs)}::int[]`,
        instead: db``,
      }
    : {
        names: db``,
        columns: db``,
        instead: db`cross join (select null::int as dns_us, null::int as connect_us, null::int as tls_us) warm`,
      }
  const trouble = settled.some((one) => one.outcome.error !== null || one.retryMs !== null)
    ? {
        names: db`, error_code, error_detail, retry_ms`,
        columns: db`, ${plain(({ outcome }) => outcome.error?.code ?? null)}::text[], ${text(({ outcome }) => outcome.error?.detail ?? null)}, ${plain((one) => one.retryMs)}::bigint[]`,
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
      ${plain(({ begun }) => begun.laneId)}::bigint[], ${plain(({ begun }) => begun.token)}::bigint[],
      ${plain(({ begun }) => begun.attemptId)}::uuid[], ${plain(({ begun }) => begun.eventSeq)}::bigint[],
      ${plain(({ begun }) => begun.attempt)}::int[], ${plain(({ outcome }) => outcome.status)}::text[],
      ${plain(({ begun }) => begun.startedAtMs)}::bigint[], ${plain(({ begun }) => begun.begunNo)}::bigint[],
      ${took((one) => one.durationUs)}::int[],
      ${took((one) => one.firstByteUs)}::int[], ${plain(({ outcome }) => outcome.address)}::text[],
      ${text((one) => one.requestHeaders)}, ${plain(({ outcome }) => outcome.response?.status ?? null)}::int[],
      ${text(({ outcome }) => outcome.response?.headers ?? null)}, ${text(({ outcome }) => outcome.response?.body ?? null)},
      ${plain(({ outcome }) => (outcome.response === null ? null : String(outcome.response.complete)))}::boolean[]
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
