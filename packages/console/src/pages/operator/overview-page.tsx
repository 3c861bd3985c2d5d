import '../../styles/webhooks.css'
import type { BusyLane, Overview } from '@keyhook/client/operator'
import { useQuery } from '@tanstack/react-query'
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
  { label: 'Node', cell: (node) => <IdChip id={node.id} /> },
  {
    label: 'State',
    cell: (node) => (node.is_silent ? <Badge tone="danger">Silent</Badge> : <Badge tone="success">Running</Badge>),
  },
  { label: 'Databases', className: 'number', cell: (node) => `${node.databases} of ${node.databases_max}` },
  { label: 'Last seen', cell: (node) => <RelativeTime at={node.seen_at} /> },
]

const laneColumns: Column<BusyLane>[] = [
  {
    label: 'Endpoint',
    className: 'cell-url',
    cell: (lane) => (
      <div>
        <span className="cell-title break">{lane.url}</span>
        <div className="small muted">{lane.organization_name}</div>
      </div>
    ),
  },
  { label: 'Waiting since', cell: (lane) => <Since at={lane.oldest_waiting_at} /> },
  { label: 'Next check', cell: (lane) => (lane.due_at === null ? '–' : <Countdown to={lane.due_at} />) },
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
      <PageHeader title="Overview" description="Queues, nodes, and the webhooks whose deliveries wait longest." />
      <div className="stack">
        <section className="card" aria-label="Numbers">
          <dl className="stat-grid">
            <Stat label="Waiting deliveries">{data ? countText(data.deliveries.waiting) : '–'}</Stat>
            <Stat label="Waiting for a retry">{data ? countText(data.deliveries.retries) : '–'}</Stat>
            <Stat label="In flight">{data ? countText(data.deliveries.in_flight) : '–'}</Stat>
            <Stat label="Oldest waiting">
              <Since at={data?.deliveries.oldest_waiting_at ?? null} />
            </Stat>
            <Stat label="Organizations">{data ? countText(data.organizations) : '–'}</Stat>
            <Stat label="Users">{data ? countText(data.users) : '–'}</Stat>
          </dl>
        </section>
        <section className="card" aria-label="Lanes">
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
        <section className="card" aria-label="Nodes">
          <div className="card-header">
            <h2>Nodes</h2>
          </div>
          <DataTable
            {...rest}
            rows={data?.nodes}
            label="Nodes"
            columns={nodeColumns}
            rowKey={(node) => node.id}
            empty={
              <EmptyState icon={Server} title="No nodes yet">
                A process with the role “jobs” or “all” becomes a node when it starts.
              </EmptyState>
            }
          />
        </section>
      </div>
    </>
  )
}

const Since = ({ at }: { at: string | null }) =>
  at === null ? <span className="muted">Nothing</span> : <RelativeTime at={at} />

function LaneState({ lane }: { lane: BusyLane }) {
  if (lane.paused_until !== null) return <Badge tone="warning">Paused</Badge>
  return lane.leased_by === null ? <Badge>Waiting</Badge> : <Badge tone="info">In progress</Badge>
}
