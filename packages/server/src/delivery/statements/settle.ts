import type { Database } from '../../db/database.ts'
import { plainArray } from '../../db/statement.ts'
import type { Exchange } from '../sender/port.ts'
import type { NewAttempt } from './begin.ts'
import type { HeldLane } from './lease.ts'

export type AttemptOutcome = Omit<Exchange, 'gone' | 'retryAfterMs'>

export type SettledAttempt = {
  attempt: NewAttempt
  outcome: AttemptOutcome
  /** Tries since the schedule started, this one included. */
  tries: number
  /** Milliseconds until the next try; null when the delivery is finished. */
  retryMs: number | null
}

/** `postponed`: attempts that were not settled, because another transaction has their lane locked. */
export type Settled = { recorded: number; postponed: ReadonlySet<string> }

/** The column ends at 35 minutes; a process that was suspended measures hours. */
const storable = (us: number | null): number | null => (us === null ? null : Math.min(us, 2 ** 31 - 1))

/**
 * Records outcomes and puts deliveries that are tried again in line. Only the holder settles: an attempt whose in-flight row is gone,
 * or whose lane has another token by now, is not recorded. Of a deleted webhook nothing is tried again.
 *
 * The third failure in a row makes a webhook `failing`, and a success ends that, a suspension too. A lane is locked and written only
 * for its first three failures and for the success after them, so while all is well, or nothing is, settling writes no lane. Where
 * that lane is locked, the attempts are left for the next call: a success must not be missed, and other receivers must not wait.
 * What owners are told is written down here and published by `webhooks/health.ts`: publishing waits for the organization's counter.
 * That also ends a suspension, which is only marked here: nothing may begin before all that waited is due, or newer events overtake.
 *
 * An attempt that was requested and in which the receiver had no part is still requested, so that it does not wait for a probe: a
 * redelivery stays one, and a test event before its turn, which has no row in `deliveries`, has the complement of its number.
 */
export const settleAttempts = async (db: Database, settled: readonly SettledAttempt[]): Promise<Settled> => {
  const plain = (column: (one: SettledAttempt) => number | string | boolean | null) => plainArray(settled.map(column))
  const took = (column: (outcome: AttemptOutcome) => number | null) => plain(({ outcome }) => storable(column(outcome)))
  const text = (column: (outcome: AttemptOutcome) => string | null) => settled.map(({ outcome }) => column(outcome))
  const [row] = await db<{ count: number; postponed: string[] | null }[]>`
    with given as materialized (
      select g.*, l.ended_at, l.failures, g.status = 'failed' and g.error_code is distinct from 'sender_exhausted' as counts
      from unnest(
        ${plain(({ attempt }) => attempt.laneId)}::bigint[], ${plain(({ attempt }) => attempt.eventSeq)}::bigint[],
        ${plain(({ attempt }) => attempt.attemptId)}::uuid[], ${plain(({ attempt }) => attempt.token)}::bigint[],
        ${plain(({ tries }) => tries)}::int[], ${plain(({ retryMs }) => retryMs)}::bigint[],
        ${plain(({ outcome }) => outcome.status)}::text[], ${took((one) => one.durationUs)}::int[],
        ${took((one) => one.dnsUs)}::int[], ${took((one) => one.connectUs)}::int[], ${took((one) => one.tlsUs)}::int[],
        ${took((one) => one.firstByteUs)}::int[], ${plain(({ outcome }) => outcome.address)}::text[],
        ${text((one) => one.requestHeaders)}::text[], ${plain(({ outcome }) => outcome.response?.status ?? null)}::int[],
        ${text((one) => one.response?.headers ?? null)}::text[], ${text((one) => one.response?.body ?? null)}::text[],
        ${plain(({ outcome }) => outcome.response?.complete ?? null)}::boolean[],
        ${plain(({ outcome }) => outcome.error?.code ?? null)}::text[], ${text((one) => one.error?.detail ?? null)}::text[]
      ) with ordinality as g (
        lane_id, event_seq, id, token, tries, retry_ms, status, duration_us, dns_us, connect_us, tls_us, first_byte_us, address,
        request_headers, response_status, response_headers, response_body, response_complete, error_code, error_detail, n
      )
      -- "offset 0" and the comparison of tokens outside of it: the planner looks lanes up one by one and expects few rows, so it
      -- looks up in_flight by its index too. Otherwise a plan made while these tables were small would read all of them.
      cross join lateral (
        select l.lease_token, l.ended_at, l.failures from keyhook.lanes l where l.id = g.lane_id offset 0
      ) l
      where l.lease_token = g.token
    ), changing as materialized (
      select g.lane_id from given g
      where g.ended_at is null and ((g.counts and g.failures < 3) or (g.status = 'succeeded' and g.failures > 0))
      group by g.lane_id
    ), locked as materialized (
      select l.* from (select c.lane_id from changing c order by c.lane_id) c cross join lateral (
        select l.id, l.failures, l.failing_since, coalesce(l.suspended_until > now(), false) as suspended from keyhook.lanes l
        where l.id = c.lane_id for no key update of l skip locked
      ) l
    ), postponed as materialized (
      select c.lane_id from changing c where c.lane_id not in (select id from locked)
    ), ended as (
      delete from keyhook.in_flight f using given g
      where f.lane_id = g.lane_id and f.event_seq = g.event_seq and f.id = g.id
        and g.lane_id not in (select lane_id from postponed)
      returning g.*, f.org_id, f.attempt, f.redelivered, f.started_at,
        case when g.ended_at is null then now() + g.retry_ms * interval '1 millisecond' end as next_attempt_at
    ), recorded as (
      insert into keyhook.attempts (
        lane_id, id, org_id, event_seq, attempt, status, started_at, duration_us, dns_us, connect_us, tls_us, first_byte_us,
        address, request_headers, response_status, response_headers, response_body, response_complete, error_code,
        error_detail, next_attempt_at, redelivered
      )
      select lane_id, id, org_id, event_seq, attempt, status, started_at, duration_us, dns_us, connect_us, tls_us,
        first_byte_us, address, request_headers, response_status, response_headers, response_body, response_complete,
        error_code, error_detail, next_attempt_at, redelivered
      from ended
    ), retried as (
      insert into keyhook.retries (lane_id, event_seq, org_id, due_at, attempt, try, redelivered)
      select e.lane_id, e.event_seq, e.org_id, e.next_attempt_at, case
          when e.counts then e.attempt
          when (select true from keyhook.deliveries d where d.lane_id = e.lane_id and d.event_seq = e.event_seq) then e.attempt
          else ~e.attempt
        end, e.tries, e.redelivered and not e.counts
      from ended e where e.next_attempt_at is not null
    ), health as materialized (
      select k.*, o.succeeded, o.error, least(3, o.failed + case when r.recovers then 0 else k.failures end) as failures_now,
        r.recovers, case when not r.recovers then k.failing_since end as still_since
      from locked k cross join lateral (
        select bool_or(e.status = 'succeeded') as succeeded, count(*) filter (where e.counts and e.n > e.succeeded_n) as failed,
          (array_agg(coalesce('HTTP ' || e.response_status, e.error_code) order by e.n desc) filter (where e.counts))[1] as error
        from (
          select e.*, coalesce(max(e.n) filter (where e.status = 'succeeded') over (), 0) as succeeded_n
          from ended e where e.lane_id = k.id
        ) e
      ) o
      cross join lateral (select o.succeeded and not k.suspended as recovers) r
      where o.succeeded or o.failed > 0
    ), noted as (
      update keyhook.lanes l
      set failures = h.failures_now,
        failing_since = case when h.failures_now = 3 then coalesce(h.still_since, now()) end,
        suspended_until = case when not h.recovers then l.suspended_until end,
        probe_at = case when not h.recovers then l.probe_at end,
        resumes = case when h.still_since is null and h.failures_now < 3 then l.resumes else h.succeeded and h.suspended end
      from health h where l.id = h.id
      returning l.id, l.org_id, l.webhook_id
    ), changed as (
      insert into keyhook.webhook_changes (org_id, webhook_id, kind, since, error)
      select n.org_id, n.webhook_id, c.kind, c.since, c.error
      from health h join noted n on n.id = h.id cross join lateral (
        select 1 as turn, 'recovered' as kind, h.failing_since as since, null as error
        where h.recovers and h.failing_since is not null
        union all
        select 2, 'failing', now(), h.error where h.failures_now = 3 and h.still_since is null
      ) c
      order by n.id, c.turn
    )
    select (select count(*)::int from ended) as count,
      (select array_agg(g.id) from given g where g.lane_id in (select lane_id from postponed)) as postponed`
  return { recorded: row!.count, postponed: new Set(row!.postponed) }
}

/**
 * After lanes were leased: what an earlier holder began and never settled is recorded as `interrupted` (outcome unknown) and is due
 * again at once. Runs under the lease, so that a process that lost the lane meanwhile does not touch its successor's attempts.
 * Returns the lanes that are free of such attempts now; the others are locked or lost.
 */
export const interruptAttempts = async (db: Database, held: readonly HeldLane[]): Promise<number[]> => {
  const rows = await db<{ id: string }[]>`
    with lane as materialized (
      select l.id, l.lease_token, l.ended_at
      from unnest(
        ${plainArray(held.map((lane) => lane.laneId))}::bigint[], ${plainArray(held.map((lane) => lane.token))}::bigint[]
      ) as h (id, token)
      cross join lateral (
        select l.id, l.lease_token, l.ended_at from keyhook.lanes l
        where l.id = h.id and l.lease_token = h.token and l.lease_server = pg_postmaster_start_time()
        for no key update of l skip locked
      ) l
    ), stale as (
      delete from keyhook.in_flight f using lane l where f.lane_id = l.id and f.lease_token <> l.lease_token
      returning f.*, case when l.ended_at is null then now() end as next_attempt_at
    ), recorded as (
      insert into keyhook.attempts (
        lane_id, id, org_id, event_seq, attempt, status, started_at, error_code, error_detail, next_attempt_at, redelivered
      )
      select lane_id, id, org_id, event_seq, attempt, 'interrupted', started_at, 'interrupted',
        'The dispatcher stopped before the outcome was known.', next_attempt_at, redelivered
      from stale
    ), retried as (
      insert into keyhook.retries (lane_id, event_seq, org_id, due_at, attempt, try, redelivered)
      select s.lane_id, s.event_seq, s.org_id, s.next_attempt_at, case
          when (select true from keyhook.deliveries d where d.lane_id = s.lane_id and d.event_seq = s.event_seq) then s.attempt
          else ~s.attempt
        end, s.try, s.redelivered
      from stale s where s.next_attempt_at is not null
    )
    select id from lane`
  return rows.map((row) => Number(row.id))
}
