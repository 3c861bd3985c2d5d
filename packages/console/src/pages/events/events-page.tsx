import type { EventRecord } from '@keyhook/client'
import { getRouteApi, Link } from '@tanstack/react-router'
import { ListTree, SearchX } from 'lucide-react'
import { useMemo } from 'react'
import { client } from '../../api/client.ts'
import { useList } from '../../api/lists.ts'
import { useEventTypes } from '../../api/webhook-queries.ts'
import { Button } from '../../components/button.tsx'
import { IdChip } from '../../components/copy.tsx'
import { type Column, DataTable } from '../../components/data-table.tsx'
import { PageHeader } from '../../components/page.tsx'
import { Select } from '../../components/select.tsx'
import { EmptyState } from '../../components/states.tsx'
import { RelativeTime } from '../../components/time.tsx'
import { type Range, rangeMs } from '../../search.ts'
import { countText } from '../../words/numbers.ts'
import { rangeTexts } from '../../words/ranges.ts'
import { Outcomes } from './outcomes.tsx'

const route = getRouteApi('/$orgId/events')

export function EventsPage() {
  const { orgId } = route.useParams()
  const { type, range } = route.useSearch()
  const navigate = route.useNavigate()
  const types = useEventTypes(orgId)
  const since = useMemo(
    () => (range === undefined ? undefined : new Date(Date.now() - rangeMs(range)).toISOString()),
    [range],
  )
  const events = useList(
    [orgId, 'events', 'list', type, range],
    (options) =>
      client.events.list({
        ...options,
        organization: orgId,
        include: 'outcomes',
        since,
        eventTypes: type === undefined ? undefined : [type],
      }),
    { refetchInterval: 3_000 },
  )
  const isFiltered = type !== undefined || range !== undefined
  const columns: Column<EventRecord>[] = [
    {
      label: 'Event',
      cell: (event) => (
        <Link to="/$orgId/events/$eventId" params={{ orgId, eventId: event.id }} className="mono cell-title">
          {event.type}
        </Link>
      ),
    },
    {
      label: 'Number',
      className: 'number',
      cell: (event) => <span className="muted">{countText(event.sequence)}</span>,
    },
    { label: 'Deliveries', className: 'cell-outcomes', cell: ({ outcomes }) => <Outcomes outcomes={outcomes} /> },
    { label: 'Id', className: 'cell-id', cell: (event) => <IdChip id={event.id} /> },
    { label: 'Happened', cell: (event) => <RelativeTime at={event.created_at} /> },
  ]
  return (
    <>
      <PageHeader
        title="Events"
        description="Everything that happened in the organization, numbered without gaps. Open one to see which webhooks got it."
      />
      <section className="card" aria-label="Events">
        <div className="card-header">
          <Select<string>
            small
            label="Event type"
            options={{ any: 'Any event type', ...Object.fromEntries(types.map(({ name }) => [name, name])) }}
            value={type ?? 'any'}
            onChange={(value) =>
              navigate({ search: (before) => ({ ...before, type: value === 'any' ? undefined : value }) })
            }
          />
          <Select<Range | 'any'>
            small
            label="Time"
            options={rangeTexts}
            value={range ?? 'any'}
            onChange={(value) =>
              navigate({ search: (before) => ({ ...before, range: value === 'any' ? undefined : value }) })
            }
          />
        </div>
        <DataTable
          {...events}
          label="Events"
          columns={columns}
          rowKey={(event) => event.id}
          empty={
            isFiltered ? (
              <EmptyState
                icon={SearchX}
                title="No event matches these filters"
                action={<Button onClick={() => navigate({ search: {} })}>Clear filters</Button>}
              />
            ) : (
              <EmptyState
                icon={ListTree}
                title="No events yet"
                action={
                  <Link to="/$orgId/databases" params={{ orgId }} className="button">
                    Go to databases
                  </Link>
                }
              >
                When a database is created, a backup ends or an invoice is paid, its event appears here.
              </EmptyState>
            )
          }
        />
      </section>
    </>
  )
}
