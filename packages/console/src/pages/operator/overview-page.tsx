import '../../styles/webhooks.css'
import type { BusyLane, Overview } from '@keyhook/client/operator'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Activity, Server } from 'lucide-react'
import { operatorClient } from '../../api/operator.ts'
import { Badge } from '../../components/badge.tsx'
import { IdChip } from '../../components/copy.tsx'
import { type Column, DataTable } from '../../components/data-table.tsx'
import { PageHeader } from '../../components/page.tsx'
import { Stat } from '../../components/stat.tsx'
import { EmptyState } from '../../components/states.tsx'
import { Countdown, RelativeTime } from '../../components/time.tsx'
import { countText } from '../../words/numbers.ts'

const nodeColumns: Column<Overview['nodes'][number]>[] = [
  {
    label: 'Machine',
    cell: (node) => (
      <div>
        <span className="cell-title break">{node.host ?? 'Without an address'}</span>
        <div className="small muted">
          Node <IdChip id={node.id} />
        </div>
      </div>
    ),
  },
  {
    label: 'State',
    cell: (node) =>
      node.is_silent ? <Badge tone="danger">Does not answer</Badge> : <Badge tone="success">Running</Badge>,
  },
  {
    label: 'Databases',
    className: 'number',
    cell: (node) =>
      node.databases_max === 0
        ? `${countText(node.databases)}, takes no new ones`
        : `${countText(node.databases)} of ${countText(node.databases_max)}`,
  },
  { label: 'Last seen', cell: (node) => <RelativeTime at={node.seen_at} /> },
]

const laneColumns: Column<BusyLane>[] = [
  {
    label: 'Webhook',
    className: 'cell-url',
    cell: (lane) => (
      <div>
        <Link
          to="/$orgId/webhooks/$webhookId"
          params={{ orgId: lane.organization_id, webhookId: lane.webhook_id }}
          className="cell-title break"
        >
          {lane.url}
        </Link>
        <div className="small muted">
          of{' '}
          <Link to="/$orgId" params={{ orgId: lane.organization_id }}>
            {lane.organization_name}
          </Link>
        </div>
      </div>
    ),
  },
  { label: 'Waiting since', cell: (lane) => <Since at={lane.oldest_waiting_at} /> },
  {
    label: 'Next try',
    // While it is leased, this is when the lease expires.
    cell: (lane) => (lane.due_at === null || lane.leased_by !== null ? '–' : <Countdown to={lane.due_at} />),
  },
  { label: 'State', cell: (lane) => <LaneState lane={lane} /> },
]

/** What the installation is doing, kept up to date. */
export function OverviewPage() {
  const overview = useQuery({
    queryKey: ['operator', 'overview'],
    queryFn: ({ signal }) => operatorClient.overview({ signal }),
    refetchInterval: 3_000,
  })
  const { data } = overview
  const rest = { error: overview.error, retry: overview.refetch }
  return (
    <>
      <PageHeader
        title="Overview"
        description="What is being sent, what waits, and the machines that databases run on."
      />
      <div className="stack">
        <section className="card" aria-label="Numbers">
          <dl className="stat-grid">
            <Stat label="Waiting for the first attempt">{data ? upToMaxText(data.deliveries.waiting) : '–'}</Stat>
            <Stat label="Waiting for another attempt">{data ? upToMaxText(data.deliveries.retries) : '–'}</Stat>
            <Stat label="Being sent now">{data ? countText(data.deliveries.in_flight) : '–'}</Stat>
            <Stat label="Longest waiting since">
              <Since at={data?.deliveries.oldest_waiting_at ?? null} />
            </Stat>
            <Stat label="Organizations">
              <Link to="/operator/organizations">{data ? countText(data.organizations) : '–'}</Link>
            </Stat>
            <Stat label="Users">
              <Link to="/operator/users">{data ? countText(data.users) : '–'}</Link>
            </Stat>
          </dl>
        </section>
        <section className="card" aria-label="Webhooks that wait">
          <div className="card-header">
            <h2>
              Webhooks with unfinished deliveries{data && data.busy_lanes > 0 ? `: ${countText(data.busy_lanes)}` : ''}
            </h2>
          </div>
          <DataTable
            {...rest}
            rows={data?.lanes}
            label="Webhooks with unfinished deliveries"
            columns={laneColumns}
            rowKey={(lane) => lane.webhook_id}
            empty={
              <EmptyState icon={Activity} title="No deliveries wait">
                Every delivery was accepted or has ended.
              </EmptyState>
            }
          />
        </section>
        <section className="card" aria-label="Machines">
          <div className="card-header">
            <h2>Machines</h2>
          </div>
          <DataTable
            {...rest}
            rows={data?.nodes}
            label="Machines"
            columns={nodeColumns}
            rowKey={(node) => node.id}
            empty={
              <EmptyState icon={Server} title="No machines for databases yet">
                A server that starts with the role “jobs” or “all” runs databases, and appears here.
              </EmptyState>
            }
          />
        </section>
      </div>
    </>
  )
}

const countedMax = 100_000

/** The server counts no further. */
const upToMaxText = (count: number): string => `${countText(count)}${count >= countedMax ? ' or more' : ''}`

const Since = ({ at }: { at: string | null }) =>
  at === null ? <span className="muted">Nothing</span> : <RelativeTime at={at} />

function LaneState({ lane }: { lane: BusyLane }) {
  if (lane.paused_until !== null) return <Badge tone="warning">Paused</Badge>
  if (lane.suspended_until !== null) return <Badge tone="danger">Suspended</Badge>
  if (lane.failing_since !== null) return <Badge tone="danger">Failing</Badge>
  return lane.leased_by === null ? <Badge>Waiting</Badge> : <Badge tone="info">Being sent</Badge>
}
