import type { Database, Transaction } from '../../db/database.ts'
import type { OrgId, WebhookId } from '../../kernel/ids.ts'
import type { Sealed } from '../../kernel/master-keys.ts'
import { boundedWait, orPassOver, type WhenLocked } from './lane-locks.ts'

/**
 * Ends the lane of a deleted webhook. Starting an attempt takes the lock of the same row and looks for this mark, so
 * once this has committed nothing starts any more, in any process. What is in flight may still be settled; while the
 * lane is leased its due time stays, so that a crash in that moment is still found.
 */
export const endLane = async (tx: Transaction, orgId: OrgId, webhookId: WebhookId): Promise<void> => {
  await tx`
    with ended as (
      update keyhook.lanes
      set ended_at = clock_timestamp(), due_at = case
        when lease_owner is not null then due_at
        -- What its last holder left behind: somebody has to look whether it has an outcome.
        when begun is not null then now()
      end
      where org_id = ${orgId} and webhook_id = ${webhookId} and ended_at is null
      returning id
    )
    delete from keyhook.retries r using ended where r.org_id = ${orgId} and r.lane_id = ended.id`
}

/*
 * The lanes as dispatchers see them. Statements that lock several lanes lock them in the order of their ids, so that no
 * two of them ever wait for each other in a circle. All times are PostgreSQL's: dispatchers' clocks may differ.
 *
 * They do not wait for the disk (synchronous_commit off for the one statement). What a crash of the server could take back is
 * found again by looking; and beginning an attempt does wait, which makes everything that was written before it durable too.
 *
 * A lease is good for the server that gave it, and the row says which that was, by when it started. A standby that takes over may
 * lack the last of what its primary had committed: events that a holder has read, outcomes that it has settled. It gives the
 * same numbers to other events, and no holder could tell what it remembers from what came in its place. So what is remembered
 * does not outlive the server: on another one nothing begins, is renewed or counts as settled under the old lease, and the lane is
 * leased anew, from its row. For whoever reads only the row, every state that a server had is as good as after a crash. The
 * same server after a restart counts as another: nobody could tell what it was restored from.
 */

export type LeasedLane = {
  laneId: number
  orgId: OrgId
  webhookId: WebhookId
  token: number
  /** That gave the lease, as announcements have it. */
  server: string
  cursorSeq: number
  headSeq: number
  asked: number
  /** The dispatcher before us may have left attempts behind that nobody settled. */
  takenOver: boolean
  /** Null once the webhook is deleted. */
  webhook: { url: string; secret: Sealed } | null
}

export type LeaseRequest = {
  owner: string
  lanesMax: number
  leaseMs: number
  exceptOrgs?: readonly OrgId[]
  exceptLanes?: readonly number[]
}

/**
 * Takes up to `lanesMax` lanes that are due, by turns across organizations: one with 10,000 lanes takes one place a turn.
 * The token is a time, so that a lease that a crash of the server takes back is not given again under the same token to
 * somebody else, while its holder still believes in it.
 */
export const leaseLanes = async (
  db: Database,
  { owner, lanesMax, leaseMs, exceptOrgs = [], exceptLanes = [] }: LeaseRequest,
): Promise<LeasedLane[]> => {
  const rows = await db<LeasedRow[]>`
    with quick as materialized (select set_config('synchronous_commit', 'off', true)), due as (
      select id, org_id, due_at, row_number() over (partition by org_id order by due_at) as turn
      from (
        select id, org_id, due_at from keyhook.lanes
        where due_at <= now() and org_id <> all (${[...exceptOrgs]}::text[]) and id <> all (${[...exceptLanes]}::bigint[])
        order by due_at limit ${lanesMax * 4}
      ) oldest
    ), candidates as materialized (
      select id, org_id from due order by turn, due_at limit ${lanesMax}
    ), locked as materialized (
      select l.id, l.org_id, l.begun is not null as taken_over
      from keyhook.lanes l join candidates c on c.id = l.id and c.org_id = l.org_id
      where l.due_at <= now()
      order by l.id for no key update of l skip locked
    ), leased as (
      update keyhook.lanes l
      set lease_owner = ${owner}, lease_token = greatest(l.lease_token + 1, (extract(epoch from clock_timestamp()) * 1000000)::bigint),
        due_at = now() + ${leaseMs} * interval '1 millisecond', begun_no = 0, lease_server = pg_postmaster_start_time()
      from locked k where l.id = k.id
      returning l.id, l.org_id, l.webhook_id, l.lease_token, l.cursor_seq, l.head_seq, l.asked, k.taken_over
    )
    select leased.*, keyhook.server(), w.url, w.secret_key_id, w.secret_box
    from quick, leased join keyhook.webhooks w on w.org_id = leased.org_id and w.id = leased.webhook_id`
  return rows.map(leasedLane)
}

type LeasedRow = {
  id: string
  org_id: OrgId
  webhook_id: WebhookId
  lease_token: string
  server: string
  cursor_seq: string
  head_seq: string
  asked: number
  taken_over: boolean
  url: string
  secret_key_id: string | null
  secret_box: Buffer | null
}

const leasedLane = (row: LeasedRow): LeasedLane => ({
  laneId: Number(row.id),
  orgId: row.org_id,
  webhookId: row.webhook_id,
  token: Number(row.lease_token),
  server: row.server,
  cursorSeq: Number(row.cursor_seq),
  headSeq: Number(row.head_seq),
  asked: row.asked,
  takenOver: row.taken_over,
  webhook:
    row.secret_box === null ? null : { url: row.url, secret: { keyId: row.secret_key_id!, box: row.secret_box } },
})

export type HeldLane = { laneId: number; token: number }
export type LaneState = { laneId: number; headSeq: number; asked: number }

/**
 * Keeps the leases, and says what has happened to the lanes since. A lane that is not in the answer is lost. One that is passed over
 * is in it, as it was: nobody else can take it either while it is locked.
 */
export const renewLanes = async (
  db: Database,
  held: readonly HeldLane[],
  leaseMs: number,
  whenLocked: WhenLocked = 'wait',
): Promise<LaneState[]> => {
  const ours = db`
    keyhook.lanes l
    join unnest(${held.map((lane) => lane.laneId)}::bigint[], ${held.map((lane) => lane.token)}::bigint[]) as h (id, token)
      on h.id = l.id and h.token = l.lease_token and l.lease_owner is not null
        and l.lease_server = pg_postmaster_start_time()`
  const rows = await db<{ id: string; head_seq: string; asked: number }[]>`
    with quick as materialized (select set_config('synchronous_commit', 'off', true), ${boundedWait(db)}), locked as materialized (
      select l.id, l.org_id
      from quick cross join ${ours}
      order by l.id for no key update of l ${orPassOver(db, whenLocked)}
    ), renewed as (
      update keyhook.lanes l set due_at = now() + ${leaseMs} * interval '1 millisecond'
      from locked k where l.id = k.id
      returning l.id, l.head_seq, l.asked
    )
    select id, head_seq, asked from renewed
    ${whenLocked === 'wait' ? db`` : db`union all select l.id, l.head_seq, l.asked from ${ours} where l.id not in (select id from locked)`}`
  return rows.map((row) => ({ laneId: Number(row.id), headSeq: Number(row.head_seq), asked: row.asked }))
}

/** What a lane that has room does not know yet. Cheap: only lanes with news answer. */
export const peekLanes = async (db: Database, known: readonly LaneState[]): Promise<LaneState[]> => {
  const rows = await db<{ id: string; head_seq: string; asked: number }[]>`
    select l.id, l.head_seq, l.asked
    from unnest(
      ${known.map((lane) => lane.laneId)}::bigint[], ${known.map((lane) => lane.headSeq)}::bigint[],
      ${known.map((lane) => lane.asked)}::int[]
    ) as k (id, head_seq, asked)
    join keyhook.lanes l on l.id = k.id and (l.head_seq > k.head_seq or l.asked <> k.asked)`
  return rows.map((row) => ({ laneId: Number(row.id), headSeq: Number(row.head_seq), asked: row.asked }))
}

/** Whether a lane is still its holder's and its webhook still there: now, not when an attempt began. */
export const isHeld = async (db: Database, { laneId, token }: HeldLane): Promise<boolean> => {
  const rows = await db`
    select from keyhook.lanes
    where id = ${laneId} and lease_token = ${token} and ended_at is null and lease_owner is not null
      and lease_server = pg_postmaster_start_time()`
  return rows.length > 0
}

/** `begunNo`: the last beginning. `settled`: nothing is on its way. `abandon`: given back with whatever is in it. */
export type ReleasedLane = HeldLane & { asked: number; begunNo: number; settled: boolean; abandon: boolean }

/**
 * Gives lanes back. A lane that was told of new deliveries meanwhile, or asked to send one again, is not given back: the
 * comparison is with the locked row, so there is no moment in which news could fall between two looks. Nor is one in which
 * something was begun since: then this was said on a connection that was given up, and comes late. Nor one that is passed over.
 */
export const releaseLanes = async (
  db: Database,
  held: readonly ReleasedLane[],
  whenLocked: WhenLocked = 'wait',
): Promise<number[]> => {
  const rows = await db<{ id: string }[]>`
    with quick as materialized (select set_config('synchronous_commit', 'off', true), ${boundedWait(db)}), given as materialized (
      select l.id, h.abandon = 1 as abandon, h.settled = 1 and l.begun_no = h.begun_no
        and l.lease_server = pg_postmaster_start_time() as settled
      from quick cross join unnest(
        ${held.map((lane) => lane.laneId)}::bigint[], ${held.map((lane) => lane.token)}::bigint[],
        ${held.map((lane) => lane.asked)}::int[], ${held.map((lane) => lane.begunNo)}::bigint[],
        ${held.map((lane) => Number(lane.settled))}::int[], ${held.map((lane) => Number(lane.abandon))}::int[]
      ) as h (id, token, asked, begun_no, settled, abandon)
      join keyhook.lanes l on l.id = h.id and l.lease_token = h.token
      where h.abandon = 1 or (
        l.begun_no = h.begun_no and l.lease_server = pg_postmaster_start_time() and (l.ended_at is not null or (l.head_seq <= l.cursor_seq and l.asked = h.asked))
      )
      order by l.id for no key update of l ${orPassOver(db, whenLocked)}
    )
    update keyhook.lanes l set
      lease_owner = null,
      begun = case when not g.settled then l.begun end,
      due_at = case
        -- Of a deleted webhook only an attempt without an outcome matters.
        when l.ended_at is not null then case when not g.settled and l.begun is not null then now() end
        when g.abandon then now()
        else (select min(r.due_at) from keyhook.retries r where r.lane_id = l.id and r.org_id = l.org_id)
      end
    from given g where l.id = g.id
    returning l.id`
  return rows.map((row) => Number(row.id))
}

/** Something in the lane is to be sent again. A free lane is due at once; whoever holds it will see the count. */
export const askLane = async (tx: Transaction, orgId: OrgId, laneId: number): Promise<void> => {
  await tx`
    update keyhook.lanes
    set asked = asked + 1, due_at = case when lease_owner is null then least(due_at, now()) else due_at end
    where id = ${laneId} and org_id = ${orgId} and ended_at is null`
}
