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

/** Who holds it: every write of a holder compares the token. */
export type HeldLane = { laneId: number; token: number }
/** A lane with the version of the settings that its holder knows. */
export type UsedLane = HeldLane & { version: number }

export type LeasedLane = UsedLane & {
  orgId: OrgId
  webhookId: WebhookId
  cursorSeq: number
  redeliveryRequests: number
  /** An earlier holder left attempts in flight. */
  takenOver: boolean
  /** The webhook is paused: the lane is leased only to record what was left in flight. */
  paused: boolean
  suspended: boolean
  /** A suspension has ended, and what waited is not sent yet. */
  resumes: boolean
  /** Of this version: both are read from one row. Null once the webhook is deleted. */
  webhook: WebhookSettings | null
}

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
        coalesce(l.paused_until > now(), false) as paused, coalesce(l.suspended_until > now(), false) as suspended, l.resumes
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
    suspended: row.suspended,
    resumes: row.resumes,
    version: row.version,
    webhook: row.secret_box === null ? null : settingsOf(row as SettingsRow),
  }))
}

export const settingsOf = (row: SettingsRow): WebhookSettings => ({
  url: row.url,
  secret: { keyId: row.secret_key_id, box: row.secret_box },
  rotation: row.old_box && {
    oldSecret: { keyId: row.old_key_id!, box: row.old_box },
    overlapUntilMs: row.overlap_until_ms!,
    switched: row.switched,
  },
  rateLimit: row.rate_limit,
})

export type SettingsRow = {
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
  suspended: boolean
  resumes: boolean
  secret_key_id: string | null
  secret_box: Buffer | null
}
