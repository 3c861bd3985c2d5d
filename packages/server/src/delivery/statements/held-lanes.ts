import type { Database } from '../../db/database.ts'
import { plainArray } from '../../db/statement.ts'
import { type HeldLane, type SettingsRow, settingsOf, type UsedLane, type WebhookSettings } from './lease.ts'

/** `changed`: the settings, if they are not those that the holder knows. */
export type RenewedLane = {
  laneId: number
  redeliveryRequests: number
  ended: boolean
  paused: boolean
  suspended: boolean
  changed: (WebhookSettings & { version: number }) | null
}

/**
 * Extends leases, and tells holders what has changed. A lane that is not in the answer is lost; a locked one is in it, because no
 * other process can take it either.
 */
export const renewLanes = async (db: Database, held: readonly UsedLane[], leaseMs: number): Promise<RenewedLane[]> => {
  const rows = await db<RenewedRow[]>`
    with async as materialized (select set_config('synchronous_commit', 'off', true)), held as materialized (
      select l.id, h.token, l.redelivery_requests, l.ended_at is not null as ended, l.org_id, l.webhook_id,
        coalesce(l.paused_until > now(), false) as paused, coalesce(l.suspended_until > now(), false) as suspended, l.version <> h.version as changed
      from async cross join unnest(
        ${plainArray(held.map((lane) => lane.laneId))}::bigint[], ${plainArray(held.map((lane) => lane.token))}::bigint[],
        ${plainArray(held.map((lane) => lane.version))}::int[]
      ) as h (id, token, version)
      cross join lateral (
        select l.* from keyhook.lanes l
        where l.id = h.id and l.lease_token = h.token and l.lease_owner is not null
          and l.lease_server = pg_postmaster_start_time()
        offset 0
      ) l
    ), locked as materialized (
      -- The token again: the row that gets locked may be newer than the one that was read.
      select l.id from held h cross join lateral (
        select l.id from keyhook.lanes l where l.id = h.id and l.lease_token = h.token and l.lease_owner is not null
        for no key update of l skip locked
      ) l
    ), renewed as (
      update keyhook.lanes l set due_at = now() + ${leaseMs} * interval '1 millisecond' from locked k where l.id = k.id
    )
    select h.id, h.redelivery_requests, h.ended, h.paused, h.suspended, w.* from held h
    left join lateral (
      select w.version, w.url, w.secret_key_id, w.secret_box, w.rate_limit, w.old_key_id, w.old_box,
        (extract(epoch from w.overlap_until) * 1000)::float8 as overlap_until_ms, w.switched
      from keyhook.webhooks w
      where h.changed and w.org_id = h.org_id and w.id = h.webhook_id and w.deleted_at is null
      offset 0
    ) w on true`
  return rows.map((row) => ({
    laneId: Number(row.id),
    redeliveryRequests: row.redelivery_requests,
    ended: row.ended,
    paused: row.paused,
    suspended: row.suspended,
    changed: row.version === null ? null : { version: row.version, ...settingsOf(row) },
  }))
}

type RenewedRow = { id: string; redelivery_requests: number; ended: boolean; paused: boolean; suspended: boolean } & (
  | SettingsRow
  | { version: null }
)

/** `abandon`: given back whatever is in it. */
export type ReleasedLane = HeldLane & { redeliveryRequests: number; abandon: boolean }

/**
 * Gives lanes back and says which. One that was woken or has a new redelivery request since is not given back: both are compared
 * in the locked row, so that nothing is missed between two reads. Nor is one with an attempt in flight: then this statement comes
 * late, from a connection that was given up, and the attempt would be in a lane that is never due.
 *
 * A suspended lane may have more to send: it is due when it is tried next, or for a redelivery. Of another one all that waited during
 * a suspension is sent.
 */
export const releaseLanes = async (db: Database, held: readonly ReleasedLane[]): Promise<number[]> => {
  const rows = await db<{ id: string }[]>`
    with async as materialized (select set_config('synchronous_commit', 'off', true)), given as materialized (
      select l.id, h.abandon
      from async cross join unnest(
        ${plainArray(held.map((lane) => lane.laneId))}::bigint[], ${plainArray(held.map((lane) => lane.token))}::bigint[],
        ${plainArray(held.map((lane) => lane.redeliveryRequests))}::int[],
        ${plainArray(held.map((lane) => lane.abandon))}::boolean[]
      ) as h (id, token, redelivery_requests, abandon)
      cross join lateral (
        select l.id from keyhook.lanes l
        where l.id = h.id and l.lease_token = h.token and (
          h.abandon or (
            l.lease_server = pg_postmaster_start_time()
            and (l.ended_at is not null or (
              (l.head_seq <= l.cursor_seq or l.suspended_until > now()) and l.redelivery_requests = h.redelivery_requests
            ))
            and not exists (select from keyhook.in_flight f where f.lane_id = h.id)
          )
        )
        for no key update of l skip locked
      ) l
    )
    update keyhook.lanes l
    set lease_owner = null, resumes = l.resumes and (g.abandon or l.suspended_until is not null), due_at = case
      -- An attempt without an outcome is interrupted by the next holder.
      when exists (select from keyhook.in_flight f where f.lane_id = l.id) then now()
      when l.ended_at is not null then null
      when g.abandon then greatest(now(), l.paused_until)
      when l.suspended_until > now() then (
        select greatest(min(w.due_at), l.paused_until) from (
          select r.due_at from keyhook.retries r where r.lane_id = l.id and (r.redelivered or r.attempt < 0)
          union all
          select l.probe_at where l.head_seq > l.cursor_seq or exists (select from keyhook.retries r where r.lane_id = l.id)
        ) w having count(*) > 0
      )
      else (
        select greatest(r.due_at, l.paused_until) from keyhook.retries r where r.lane_id = l.id order by r.due_at limit 1
      )
    end
    from given g where l.id = g.id
    returning l.id`
  return rows.map((row) => Number(row.id))
}

/** Whether a lane still belongs to its holder, and its webhook exists, is not paused and has these settings, now. */
export const isLaneHeld = async (db: Database, { laneId, token, version }: UsedLane): Promise<boolean> => {
  const rows = await db`
    select from keyhook.lanes
    where id = ${laneId} and lease_token = ${token} and lease_owner is not null and ended_at is null
      and version = ${version} and (paused_until > now()) is not true
      and lease_server = pg_postmaster_start_time()`
  return rows.count > 0
}
