import Type from 'typebox'
import type { Database } from '../db/database.ts'
import { chosen } from '../http/basis.ts'
import { operatorRoute, type Route } from '../http/route.ts'
import { closed, component, id, nullable, timestamp } from '../http/schemas.ts'
import type { OrgId, WebhookId } from '../lib/ids.ts'
import { isoTime } from '../lib/time.ts'

/** Counting stops here: an overview must not read millions of waiting deliveries. */
const countedMax = 100_000
const lanesShownMax = 50

type OverviewRow = Record<'organizations' | 'users' | 'waiting' | 'retries' | 'in_flight', number>

const countInstallation = (db: Database) =>
  db<OverviewRow[]>`
    select (select count(*)::int from keyhook.organizations where deleted_at is null) as organizations,
      (select count(*)::int from keyhook.users where removed_at is null) as users,
      (select count(*)::int from keyhook.in_flight) as in_flight,
      (select count(*)::int from (select from keyhook.retries limit ${countedMax}) r) as retries,
      (select count(*)::int from (
        select from keyhook.lanes l join keyhook.deliveries d on d.lane_id = l.id and d.event_seq > l.cursor_seq
        where l.ended_at is null and l.head_seq > l.cursor_seq limit ${countedMax}
      ) w) as waiting`.one()

type BusyLaneRow = {
  org_id: OrgId
  organization: string
  webhook_id: WebhookId
  url: string
  oldest_waiting_at: Date | null
  due_at: Date | null
  lease_owner: string | null
  paused_until: Date | null
  suspended_until: Date | null
  failing_since: Date | null
  busy: number
}

/**
 * Lanes with something to do, the longest waiting first, with how many there are. Three look-ups for each of them; a lane without
 * work costs none.
 */
const listBusyLanes = (db: Database) => db<BusyLaneRow[]>`
  with busy as materialized (
    select l.id, l.org_id, l.webhook_id, l.due_at, l.lease_owner,
      case when l.paused_until > now() then l.paused_until end as paused_until,
      case when l.suspended_until > now() then l.suspended_until end as suspended_until, l.failing_since, least(
      (select d.event_seq from keyhook.deliveries d where d.lane_id = l.id and d.event_seq > l.cursor_seq
        order by d.event_seq limit 1),
      (select r.event_seq from keyhook.retries r where r.lane_id = l.id order by r.event_seq limit 1),
      (select f.event_seq from keyhook.in_flight f where f.lane_id = l.id order by f.event_seq limit 1)
    ) as first_seq
    from keyhook.lanes l
    where l.ended_at is null and (l.due_at is not null or l.head_seq > l.cursor_seq)
  )
  select b.org_id, o.name as organization, b.webhook_id, w.url, e.created_at as oldest_waiting_at, b.due_at, b.lease_owner,
    b.paused_until, b.suspended_until, b.failing_since, (count(*) over ())::int as busy
  from busy b
  join keyhook.organizations o on o.id = b.org_id
  join keyhook.webhooks w on w.org_id = b.org_id and w.id = b.webhook_id
  join keyhook.events e on e.org_id = b.org_id and e.seq = b.first_seq
  order by e.created_at, b.id
  limit ${lanesShownMax}`

type NodeRow = {
  id: string
  host: string | null
  databases: number
  databases_max: number
  seen_at: Date
  silent_seconds: number
}

const listNodes = (db: Database) => db<NodeRow[]>`
  select n.id, n.host, n.databases_max, n.seen_at,
    extract(epoch from clock_timestamp() - n.seen_at)::float8 as silent_seconds, (
      select count(*)::int from keyhook.databases d where d.node = n.id and d.status not in ('failed', 'deleted')
    ) as databases
  from keyhook.nodes n order by n.id limit 1000`

const here = chosen(108)
const count = (description: string) => Type.Integer({ minimum: 0, description })
const upTo = `counted up to ${countedMax.toLocaleString('en')}`

const node = closed({
  id: Type.String({ description: 'The node.', examples: ['node-1'] }),
  host: nullable(Type.String({ description: 'The host name or address that clients reach its databases at.' })),
  databases: count('Databases on its disk.'),
  databases_max: count('How many it takes; 0 while it takes no new ones.'),
  seen_at: timestamp('Its last heartbeat.'),
  is_silent: Type.Boolean({ description: 'Whether it has missed its heartbeats for five seconds.' }),
})

const lane = closed({
  organization_id: id('org', 'The organization.'),
  organization_name: Type.String({ description: 'What people call it.', examples: ['Acme'] }),
  webhook_id: id('wh', 'The webhook whose queue this is.'),
  url: Type.String({ description: 'Where its deliveries go.', examples: ['https://example.com/hooks'] }),
  oldest_waiting_at: nullable(timestamp('The event that waits longest.')),
  due_at: nullable(timestamp('When a dispatcher looks at it next; while leased, when the lease expires.')),
  leased_by: nullable(Type.String({ description: 'The dispatcher that works on it.' })),
  paused_until: nullable(timestamp('Until then nothing is sent.')),
  suspended_until: nullable(
    timestamp('When a suspension without any success ends; until then one delivery is tried every hour.'),
  ),
  failing_since: nullable(timestamp('When the third attempt in a row failed; null after a success.')),
})

const overview = component('Overview', here, {
  organizations: count('All organizations.'),
  users: count('All users.'),
  deliveries: closed(
    {
      waiting: count(`Deliveries that wait for their first attempt, ${upTo}.`),
      retries: count(`Deliveries that wait for another attempt, ${upTo}.`),
      in_flight: count('Requests on the wire.'),
      oldest_waiting_at: nullable(timestamp('The event that waits longest; null if none does.')),
    },
    { description: 'What is not finished.' },
  ),
  nodes: Type.Array(node, { description: 'Machines that hold databases.' }),
  busy_lanes: count('Webhooks with deliveries that are not finished.'),
  lanes: Type.Array(lane, { description: `Those of them that wait longest, at most ${lanesShownMax}.` }),
})

const silentSecondsMax = 5

export function operatorOverviewRoutes({ db }: { db: Database }): Route[] {
  return [
    operatorRoute({
      method: 'GET',
      path: '/operator/v1/overview',
      audit: null,
      basis: here,
      summary: 'Show what the installation is doing',
      description: 'Nodes, queues, and what waits longest, across all organizations.',
      success: { status: 200, description: 'The overview.', schema: overview },
      async handler() {
        const [counts, lanes, nodes] = await Promise.all([countInstallation(db), listBusyLanes(db), listNodes(db)])
        const { organizations, users, ...deliveries } = counts
        const oldest_waiting_at = timestampOf(lanes[0]?.oldest_waiting_at)
        return {
          status: 200,
          body: {
            organizations,
            users,
            deliveries: { ...deliveries, oldest_waiting_at },
            nodes: nodes.map(nodeOf),
            busy_lanes: lanes[0]?.busy ?? 0,
            lanes: lanes.map(laneOf),
          },
        }
      },
    }),
  ]
}

const timestampOf = (at: Date | null | undefined): string | null => (at ? isoTime(at) : null)

const nodeOf = ({ id, host, databases, databases_max, seen_at, silent_seconds }: NodeRow) => ({
  id,
  host,
  databases,
  databases_max,
  seen_at: isoTime(seen_at),
  is_silent: silent_seconds > silentSecondsMax,
})

const laneOf = (row: BusyLaneRow) => ({
  organization_id: row.org_id,
  organization_name: row.organization,
  webhook_id: row.webhook_id,
  url: row.url,
  oldest_waiting_at: timestampOf(row.oldest_waiting_at),
  due_at: timestampOf(row.due_at),
  leased_by: row.lease_owner,
  paused_until: timestampOf(row.paused_until),
  suspended_until: timestampOf(row.suspended_until),
  failing_since: timestampOf(row.failing_since),
})
