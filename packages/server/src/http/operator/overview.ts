import Type from 'typebox'
import type { Database } from '../../db/database.ts'
import { isoTime } from '../../kernel/iso-time.ts'
import {
  type BusyLaneRow,
  countedMax,
  countInstallation,
  lanesShownMax,
  listBusyLanes,
  listNodes,
  type NodeRow,
} from '../../store/operator-overview.ts'
import { chosen } from '../basis.ts'
import { operatorRoute, type Route } from '../route.ts'
import { id, moment, nullable } from '../schemas.ts'

const here = chosen(108)
const count = (description: string) => Type.Integer({ minimum: 0, description })
const upTo = `counted up to ${countedMax.toLocaleString('en')}`

const node = Type.Object(
  {
    id: Type.String({ description: 'The node.' }),
    databases: count('Databases on its disk.'),
    databases_max: count('How many it takes; 0 while it takes no new ones.'),
    seen_at: moment('Its last heartbeat.'),
    is_silent: Type.Boolean({ description: 'Whether it has missed its heartbeats for five seconds.' }),
  },
  { additionalProperties: false },
)

const lane = Type.Object(
  {
    organization_id: id('org', 'The organization.'),
    organization_name: Type.String({ description: 'What people call it.' }),
    webhook_id: id('wh', 'The webhook whose queue this is.'),
    url: Type.String({ description: 'Where its deliveries go.' }),
    oldest_waiting_at: nullable(moment('The event that waits longest.')),
    due_at: nullable(moment('When a dispatcher looks at it next; while leased, when the lease expires.')),
    leased_by: nullable(Type.String({ description: 'The dispatcher that works on it.' })),
    paused_until: nullable(moment('Until then nothing is sent.')),
  },
  { additionalProperties: false },
)

const overview = Type.Object(
  {
    organizations: count('All organizations.'),
    users: count('All users.'),
    deliveries: Type.Object(
      {
        waiting: count(`Deliveries that wait for their first attempt, ${upTo}.`),
        retries: count(`Deliveries that wait for another attempt, ${upTo}.`),
        in_flight: count('Requests on the wire.'),
        oldest_waiting_at: nullable(moment('The event that waits longest; null if none does.')),
      },
      { additionalProperties: false, description: 'What is not finished.' },
    ),
    nodes: Type.Array(node, { description: 'Machines that hold databases.' }),
    busy_lanes: count('Webhooks with deliveries that are not finished.'),
    lanes: Type.Array(lane, { description: `Those of them that wait longest, at most ${lanesShownMax}.` }),
  },
  { $id: 'Overview', additionalProperties: false, ...here },
)

const silentSecondsMax = 5

export function operatorOverviewRoutes({ db }: { db: Database }): Route[] {
  return [
    operatorRoute({
      method: 'GET',
      path: '/operator/v1/overview',
      needs: 'operator',
      audit: null,
      basis: here,
      tag: 'Operator',
      summary: 'Show what the installation is doing',
      description: 'Nodes, queues, and what waits longest, across all organizations.',
      success: { status: 200, description: 'The overview.', schema: overview },
      async handler() {
        const [counts, lanes, nodes] = await Promise.all([countInstallation(db), listBusyLanes(db), listNodes(db)])
        const { organizations, users, ...deliveries } = counts
        const oldest_waiting_at = momentOf(lanes[0]?.oldest_waiting_at)
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

const momentOf = (at: Date | null | undefined): string | null => (at ? isoTime(at) : null)

const nodeOf = ({ id, databases, databases_max, seen_at, silent_seconds }: NodeRow) => ({
  id,
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
  oldest_waiting_at: momentOf(row.oldest_waiting_at),
  due_at: momentOf(row.due_at),
  leased_by: row.lease_owner,
  paused_until: momentOf(row.paused_until),
})
