import type { Database } from '../../db/database.ts'
import { plainArray } from '../../db/statement.ts'
import { type SettingsRow, settingsOf, type UsedLane, type WebhookSettings } from './lease.ts'

/** `changed`: the settings, if they are not those that the holder knows. */
export type RenewedLane = {
  laneId: number
  redeliveryRequests: number
  ended: boolean
  paused: boolean
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
        coalesce(l.paused_until > now(), false) as paused, l.version <> h.version as changed
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
    select h.id, h.redelivery_requests, h.ended, h.paused, w.* from held h
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
    changed: row.version === null ? null : { version: row.version, ...settingsOf(row) },
  }))
}

type RenewedRow = { id: string; redelivery_requests: number; ended: boolean; paused: boolean } & (
  | SettingsRow
  | { version: null }
)
