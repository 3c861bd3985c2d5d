import type { Database } from '../../db/database.ts'
import { plainArray } from '../../db/statement.ts'
import type { OrgId, WebhookId } from '../../lib/ids.ts'
import type { Sealed } from '../../lib/master-keys.ts'

/*
 * Lanes are leased whole. All times are PostgreSQL's, because clocks of dispatchers differ. A lease is valid for the server that
 * granted it: a standby that takes over may lack the last commits and give the same numbers to other events, so nothing that a
 * holder remembers may outlive its server.
 *
 * No statement waits for a locked lane (`skip locked`), so no two of them can deadlock. None of them waits for the disk
 * (`synchronous_commit = off`): what a crash of the server takes back is found again by polling.
 *
 * Lanes are looked up one by one (`lateral` with `for update` or `offset 0`): a plan that was made while there were few lanes would
 * otherwise read all of them for ever.
 */

export type LeasedLane = {
  laneId: number
  orgId: OrgId
  webhookId: WebhookId
  token: number
  cursorSeq: number
  redeliveryRequests: number
  /** An earlier holder left attempts in flight. */
  takenOver: boolean
  /** The webhook is paused: the lane is leased only to record what was left in flight. */
  paused: boolean
  /** Of the settings below: both are read from one row. */
  version: number
  /** Null once the webhook is deleted. */
  webhook: WebhookSettings | null
}

/** What is sent and how. */
export type WebhookSettings = { url: string; secret: Sealed; rotation: Rotation | null; rateLimit: number | null }

/** The secret of before is valid too, until then. `switched`: the specified signature is made with the new one already. */
type Rotation = { oldSecret: Sealed; overlapUntilMs: number; switched: boolean }

export type LeaseRequest = {
  owner: string
  lanesMax: number
  leaseMs: number
  exceptOrgs: readonly OrgId[]
  exceptLanes: readonly number[]
}

/**
 * Takes up to `lanesMax` due lanes, in turns across organizations: one with 10,000 due lanes takes one place a turn. The token is a
 * time, so that a lease lost in a crash of the server is not granted again with the same token.
 */
export const leaseLanes = async (
  db: Database,
  { owner, lanesMax, leaseMs, exceptOrgs, exceptLanes }: LeaseRequest,
): Promise<LeasedLane[]> => {
  const rows = await db<LeasedRow[]>`
    with async as materialized (
      select set_config('synchronous_commit', 'off', true), (extract(epoch from clock_timestamp()) * 1000000)::bigint as token
    ), oldest as (
      select id, org_id, due_at from keyhook.lanes
      where due_at <= now() and org_id <> all (${exceptOrgs}::text[]) and id <> all (${plainArray(exceptLanes)}::bigint[])
      order by due_at limit ${lanesMax * 4}
    ), candidates as materialized (
      select id from (
        select id, due_at, row_number() over (partition by org_id order by due_at) as turn from oldest
      ) o
      order by turn, due_at limit ${lanesMax}
    ), locked as materialized (
      select l.id from keyhook.lanes l join candidates c on c.id = l.id
      where l.due_at <= now()
      order by l.id for no key update of l skip locked
    ), leased as (
      update keyhook.lanes l
      set lease_owner = ${owner}, lease_token = greatest(l.lease_token + 1, async.token),
        lease_server = pg_postmaster_start_time(), due_at = now() + ${leaseMs} * interval '1 millisecond'
      from locked, async where l.id = locked.id
      returning l.id, l.org_id, l.webhook_id, l.lease_token, l.cursor_seq, l.redelivery_requests,
        coalesce(l.paused_until > now(), false) as paused
    )
    select l.*, f.attempts > 0 as taken_over, w.version, w.url, w.secret_key_id, w.secret_box, w.rate_limit,
      w.old_key_id, w.old_box, (extract(epoch from w.overlap_until) * 1000)::float8 as overlap_until_ms, w.switched
    from leased l join keyhook.webhooks w on w.org_id = l.org_id and w.id = l.webhook_id
    -- A count and not "exists": without statistics the planner would scan the table for the first match.
    cross join lateral (select count(*) as attempts from keyhook.in_flight f where f.lane_id = l.id) f`
  return rows.map((row) => ({
    laneId: Number(row.id),
    orgId: row.org_id,
    webhookId: row.webhook_id,
    token: Number(row.lease_token),
    cursorSeq: Number(row.cursor_seq),
    redeliveryRequests: row.redelivery_requests,
    takenOver: row.taken_over,
    paused: row.paused,
    version: row.version,
    webhook: row.secret_box === null ? null : settingsOf(row as SettingsRow),
  }))
}

const settingsOf = (row: SettingsRow): WebhookSettings => ({
  url: row.url,
  secret: { keyId: row.secret_key_id, box: row.secret_box },
  rotation: row.old_box && {
    oldSecret: { keyId: row.old_key_id!, box: row.old_box },
    overlapUntilMs: row.overlap_until_ms!,
    switched: row.switched,
  },
  rateLimit: row.rate_limit,
})

type SettingsRow = {
  version: number
  url: string
  secret_key_id: string
  secret_box: Buffer
  rate_limit: number | null
  old_key_id: string | null
  old_box: Buffer | null
  overlap_until_ms: number | null
  switched: boolean
}

type LeasedRow = Omit<SettingsRow, 'secret_key_id' | 'secret_box'> & {
  id: string
  org_id: OrgId
  webhook_id: WebhookId
  lease_token: string
  cursor_seq: string
  redelivery_requests: number
  taken_over: boolean
  paused: boolean
  secret_key_id: string | null
  secret_box: Buffer | null
}

export type HeldLane = { laneId: number; token: number }
/** A lane with the version of the settings that its holder knows. */
export type UsedLane = HeldLane & { version: number }
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

/** Whether a lane still belongs to its holder, and its webhook exists, is not paused and has these settings, now. */
export const isLaneHeld = async (db: Database, { laneId, token, version }: UsedLane): Promise<boolean> => {
  const rows = await db`
    select from keyhook.lanes
    where id = ${laneId} and lease_token = ${token} and lease_owner is not null and ended_at is null
      and version = ${version} and (paused_until > now()) is not true
      and lease_server = pg_postmaster_start_time()`
  return rows.count > 0
}

/** `abandon`: given back whatever is in it. */
export type ReleasedLane = HeldLane & { redeliveryRequests: number; abandon: boolean }

/**
 * Gives lanes back and says which. One that was woken or has a new redelivery request since is not given back: both are compared
 * in the locked row, so that nothing is missed between two reads. Nor is one with an attempt in flight: then this statement comes
 * late, from a connection that was given up, and the attempt would be in a lane that is never due.
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
            and (l.ended_at is not null or (l.head_seq <= l.cursor_seq and l.redelivery_requests = h.redelivery_requests))
            and not exists (select from keyhook.in_flight f where f.lane_id = h.id)
          )
        )
        for no key update of l skip locked
      ) l
    )
    update keyhook.lanes l
    set lease_owner = null, due_at = case
      -- An attempt without an outcome is interrupted by the next holder.
      when exists (select from keyhook.in_flight f where f.lane_id = l.id) then now()
      when l.ended_at is not null then null
      when g.abandon then greatest(now(), l.paused_until)
      else (
        select greatest(r.due_at, l.paused_until) from keyhook.retries r where r.lane_id = l.id order by r.due_at limit 1
      )
    end
    from given g where l.id = g.id
    returning l.id`
  return rows.map((row) => Number(row.id))
}
