import type { Database, Executor, Transaction } from '../db/database.ts'
import type { OrgId, WebhookId } from '../lib/ids.ts'
import { leaseMsMax, pauseMsMax, probeMs, retryMsMax, suspensionMs } from './retry-schedule.ts'

/*
 * All writes to lanes by others than their holders; those of dispatchers are in `statements/`. Nothing here holds a lease or takes one
 * away: each statement locks the row of the lane, and what the holder does next compares the row. Beginning an attempt takes the same
 * lock and compares `ended_at`, `paused_until` and `version`: once a change is committed, no attempt begins that it forbids. Releasing
 * compares `redelivery_requests`. Renewing tells the holder about all four.
 *
 * While a lane is leased its `due_at` is the end of the lease, so only that of a free lane is changed; `correctLanes` alone also
 * shortens a lease that a wrong clock made too long. A lane is locked after its webhook and before its retries.
 */

/** In the transaction that creates the webhook: without a lane it would miss events. */
export const insertLane = async (tx: Transaction, orgId: OrgId, webhookId: WebhookId): Promise<void> => {
  await tx`
    insert into keyhook.lanes (id, org_id, webhook_id)
    select lane_id, org_id, id from keyhook.webhooks where org_id = ${orgId} and id = ${webhookId}`
}

/**
 * In the transaction that changes the settings of the webhook and their version: once it is committed, no attempt begins with the old
 * settings, in any process.
 */
export const copyVersion = async (tx: Transaction, orgId: OrgId, webhookId: WebhookId): Promise<void> => {
  await tx`
    update keyhook.lanes l set version = w.version from keyhook.webhooks w
    where w.org_id = ${orgId} and w.id = ${webhookId} and l.id = w.lane_id`
}

/**
 * Ends the lane of a deleted webhook. Beginning an attempt locks the same row and looks at `ended_at`: once this is committed, no
 * process begins anything. The lock is a statement of its own, so that the next one sees everything that was written before it.
 *
 * Attempts in flight may still be settled. While the lane is leased its due time stays, so that a dispatcher's crash is noticed.
 */
export const endLane = async (tx: Transaction, orgId: OrgId, webhookId: WebhookId): Promise<void> => {
  const [lane] = await tx<{ id: string }[]>`
    select id from keyhook.lanes
    where org_id = ${orgId} and webhook_id = ${webhookId} and ended_at is null
    for no key update`
  if (lane === undefined) return
  await tx`
    update keyhook.lanes l
    set ended_at = clock_timestamp(), due_at = case
      when l.lease_owner is not null then l.due_at
      else (select now() from keyhook.in_flight f where f.lane_id = l.id limit 1)
    end
    where l.id = ${lane.id}`
  await tx`delete from keyhook.retries where lane_id = ${lane.id}`
}

/** The same for all lanes of a deleted organization. Its retries are erased later. */
export const endLanesOf = async (tx: Transaction, orgId: OrgId): Promise<void> => {
  await tx`select from keyhook.lanes where org_id = ${orgId} and ended_at is null order by id for no key update`
  await tx`
    update keyhook.lanes l
    set ended_at = clock_timestamp(), due_at = case
      when l.lease_owner is not null then l.due_at
      else (select now() from keyhook.in_flight f where f.lane_id = l.id limit 1)
    end
    where l.org_id = ${orgId} and l.ended_at is null`
}

/**
 * Locks the lane, and has its holder look for retries that are due; a free lane becomes due itself. False when the webhook is
 * deleted. Call it before reading the lane's deliveries: while the lane is locked, no attempt of them begins.
 */
export const requestRedelivery = async (tx: Transaction, laneId: number): Promise<boolean> => {
  const requested = await tx`
    update keyhook.lanes
    set redelivery_requests = redelivery_requests + 1,
      due_at = case when lease_owner is null then least(due_at, greatest(now(), paused_until)) else due_at end
    where id = ${laneId} and ended_at is null`
  return requested.count > 0
}

/** A suspended webhook is tried now, or when its pause ends. A holder finds out when it reads again or gives the lane back. */
export const probeNow = async (tx: Transaction, orgId: OrgId, webhookId: WebhookId): Promise<void> => {
  await tx`
    update keyhook.lanes
    set probe_at = now(),
      due_at = case when lease_owner is null then least(due_at, greatest(now(), paused_until)) else due_at end
    where org_id = ${orgId} and webhook_id = ${webhookId} and suspended_until > now()`
}

/**
 * As `requestRedelivery` if the webhook is suspended, for a test event that would wait behind all others. Its lane, or null if the
 * webhook is not suspended.
 */
export const requestWhileSuspended = async (
  tx: Executor,
  orgId: OrgId,
  webhookId: WebhookId,
): Promise<number | null> => {
  const [lane] = await tx<{ id: string }[]>`
    update keyhook.lanes
    set redelivery_requests = redelivery_requests + 1,
      due_at = case when lease_owner is null then least(due_at, greatest(now(), paused_until)) else due_at end
    where org_id = ${orgId} and webhook_id = ${webhookId} and ended_at is null and suspended_until > now()
    returning id`
  return lane === undefined ? null : Number(lane.id)
}

/**
 * Nothing begins until then: beginning locks the same row and compares `paused_until`. The lock is a statement of its own, as above.
 * A free lane is due when the pause ends, or now where a dead process left attempts in flight. A holder keeps its lease until its
 * attempts have ended, and gives the lane back then.
 */
export const pauseLane = async (tx: Transaction, orgId: OrgId, webhookId: WebhookId, until: Date): Promise<void> => {
  await tx`select from keyhook.lanes where org_id = ${orgId} and webhook_id = ${webhookId} for no key update`
  await tx`
    update keyhook.lanes l
    set paused_until = ${until}, due_at = case
      when l.lease_owner is not null then l.due_at
      when exists (select from keyhook.in_flight f where f.lane_id = l.id) then now()
      else ${until}
    end
    where l.org_id = ${orgId} and l.webhook_id = ${webhookId}`
}

export const isLanePaused = async (tx: Transaction, orgId: OrgId, webhookId: WebhookId): Promise<boolean> => {
  const rows = await tx`
    select from keyhook.lanes where org_id = ${orgId} and webhook_id = ${webhookId} and paused_until > now()`
  return rows.count > 0
}

/** A free lane is due at once; a holder learns of it when it renews its lease. */
export const resumeLane = async (tx: Transaction, orgId: OrgId, webhookId: WebhookId): Promise<void> => {
  await tx`
    update keyhook.lanes
    set paused_until = null, due_at = case when lease_owner is null then now() else due_at end
    where org_id = ${orgId} and webhook_id = ${webhookId}`
}

/*
 * Times further in the future than any lease or schedule: PostgreSQL's clock was ahead when they were written. Without a correction,
 * free lanes and their retries would wait until then. There is no index for this: each statement reads a whole table once an hour
 * (0.3 s for a million retries). Locked lanes are skipped until the next hour.
 */

/** A minute more than the longest lease, because clocks are often corrected by seconds. */
const leaseMsTooLong = leaseMsMax + 60_000

/** The longest wait of any schedule, not of ours: another node may have a longer one. */
const retryMsTooLong = retryMsMax + 60_000
const pauseMsTooLong = pauseMsMax + 60_000
const probeMsTooLong = probeMs + 60_000

/**
 * Makes lanes due whose time is wrong, and returns how many. A leased lane gets the time of a new lease: a holder that is alive
 * renews it. A free lane with new deliveries or attempts in flight is due at once, or when its pause ends. A pause that is longer
 * than any may be ends now, and a suspended webhook is tried now.
 */
export const correctLanes = async (db: Database, leaseMs: number): Promise<number> => {
  const corrected = await db`
    with wrong as materialized (
      select l.id from keyhook.lanes l
      where l.due_at > now() + ${leaseMsTooLong} * interval '1 millisecond' and (
        l.lease_owner is not null
        or l.paused_until > now() + ${pauseMsTooLong} * interval '1 millisecond'
        or (
          l.ended_at is null and l.head_seq > l.cursor_seq and (l.paused_until > now()) is not true
          and (l.suspended_until > now()) is not true
        )
        or l.probe_at > now() + ${probeMsTooLong} * interval '1 millisecond'
        or exists (select from keyhook.in_flight f where f.lane_id = l.id)
        or l.due_at > greatest(now() + ${retryMsTooLong} * interval '1 millisecond', l.paused_until)
      )
      order by l.id for no key update of l skip locked
    )
    update keyhook.lanes l
    set due_at = case when l.lease_owner is null then now() else now() + ${leaseMs} * interval '1 millisecond' end,
      paused_until = case
        when l.paused_until <= now() + ${pauseMsTooLong} * interval '1 millisecond' then l.paused_until
      end,
      -- Not of every lane: "least" takes no notice of nulls.
      suspended_until = case when l.suspended_until is not null then
        least(l.suspended_until, now() + ${suspensionMs} * interval '1 millisecond')
      end,
      probe_at = case
        when l.probe_at <= now() + ${probeMsTooLong} * interval '1 millisecond' then l.probe_at
        when l.probe_at is not null then now()
      end
    from wrong w where l.id = w.id`
  return corrected.count
}

/**
 * Makes retries due whose time is wrong, and returns in how many lanes. The right time is unknown, and early is better than never.
 * The lanes are locked first, as everywhere, and count it as a redelivery request, so that their holders look for it.
 */
export const correctRetries = async (db: Database): Promise<number> => {
  const corrected = await db`
    with lane as materialized (
      select l.id from keyhook.lanes l
      where l.id in (
        select r.lane_id from keyhook.retries r where r.due_at > now() + ${retryMsTooLong} * interval '1 millisecond'
      )
      order by l.id for no key update of l skip locked
    ), retried as (
      update keyhook.retries r set due_at = now()
      from lane where r.lane_id = lane.id and r.due_at > now() + ${retryMsTooLong} * interval '1 millisecond'
    )
    update keyhook.lanes l
    set redelivery_requests = l.redelivery_requests + 1,
      due_at = case when l.lease_owner is null and l.ended_at is null then greatest(now(), l.paused_until) else l.due_at end
    from lane where l.id = lane.id`
  return corrected.count
}

/** Erases the old secrets of all overlaps that have ended. Returns how many. */
export const eraseOldSecrets = async (db: Database): Promise<number> => {
  const erased = await db`
    with ended as materialized (
      select org_id, id from keyhook.webhooks where overlap_until <= now()
      order by org_id, id for no key update skip locked
    ), changed as (
      update keyhook.webhooks w
      set old_key_id = null, old_box = null, rotated_at = null, overlap_until = null, switched = false, version = version + 1
      from ended e where w.org_id = e.org_id and w.id = e.id
      returning w.lane_id, w.version
    )
    update keyhook.lanes l set version = c.version from changed c where l.id = c.lane_id`
  return erased.count
}
