import type { Database } from '../db/database.ts'
import type { OrgId, WebhookId } from '../kernel/ids.ts'

/** Counting stops here: an overview must not read millions of waiting deliveries. */
export const countedMax = 100_000
export const lanesShownMax = 50

export type OverviewRow = {
  organizations: number
  users: number
  waiting: number
  retries: number
  in_flight: number
}

export const countInstallation = async (db: Database): Promise<OverviewRow> => {
  const [row] = await db<OverviewRow[]>`
    select (select count(*)::int from keyhook.organizations) as organizations,
      (select count(*)::int from keyhook.users where removed_at is null) as users,
      (select count(*)::int from keyhook.in_flight) as in_flight,
      (select count(*)::int from (select from keyhook.retries limit ${countedMax}) r) as retries,
      (select count(*)::int from (
        select from keyhook.lanes l join keyhook.deliveries d on d.lane_id = l.id and d.event_seq > l.cursor_seq
        where l.ended_at is null and l.head_seq > l.cursor_seq limit ${countedMax}
      ) w) as waiting`
  return row!
}

export type BusyLaneRow = {
  org_id: OrgId
  organization: string
  webhook_id: WebhookId
  url: string
  oldest_waiting_at: Date | null
  due_at: Date | null
  lease_owner: string | null
  paused_until: Date | null
  busy: number
}

/**
 * Lanes with something to do, the longest waiting first, with how many there are. Three look-ups for each of them; a lane without
 * work costs none.
 */
export const listBusyLanes = (db: Database) => db<BusyLaneRow[]>`
  with busy as materialized (
    select l.id, l.org_id, l.webhook_id, l.due_at, l.lease_owner, l.paused_until, least(
      (select d.event_seq from keyhook.deliveries d where d.lane_id = l.id and d.event_seq > l.cursor_seq
        order by d.event_seq limit 1),
      (select r.event_seq from keyhook.retries r where r.lane_id = l.id order by r.event_seq limit 1),
      (select f.event_seq from keyhook.in_flight f where f.lane_id = l.id order by f.event_seq limit 1)
    ) as first_seq
    from keyhook.lanes l
    where l.ended_at is null and (l.due_at is not null or l.head_seq > l.cursor_seq)
  )
  select b.org_id, o.name as organization, b.webhook_id, w.url, e.created_at as oldest_waiting_at, b.due_at, b.lease_owner,
    b.paused_until, (count(*) over ())::int as busy
  from busy b
  join keyhook.organizations o on o.id = b.org_id
  join keyhook.webhooks w on w.org_id = b.org_id and w.id = b.webhook_id
  join keyhook.events e on e.org_id = b.org_id and e.seq = b.first_seq
  order by e.created_at, b.id
  limit ${lanesShownMax}`

export type NodeRow = { id: string; databases: number; databases_max: number; seen_at: Date; silent_seconds: number }

export const listNodes = (db: Database) => db<NodeRow[]>`
  select n.id, n.databases_max, n.seen_at,
    extract(epoch from clock_timestamp() - n.seen_at)::float8 as silent_seconds, (
      select count(*)::int from keyhook.databases d where d.node = n.id and d.status not in ('failed', 'deleted')
    ) as databases
  from keyhook.nodes n order by n.id limit 1000`
