import { Link } from '@tanstack/react-router'
import { Activity } from 'lucide-react'
import { client } from '../../api/client.ts'
import { useList } from '../../api/lists.ts'
import { AttemptBadge } from '../../components/attempt-badge.tsx'
import { DataTable } from '../../components/data-table.tsx'
import { EmptyState } from '../../components/states.tsx'
import { RelativeTime } from '../../components/time.tsx'

/** The newest attempts of one webhook. */
export function LatestAttempts({ organization, webhookId }: { organization: string; webhookId: string }) {
  const params = { orgId: organization }
  const deliveries = useList(
    [organization, 'deliveries', 'latest', webhookId],
    (options) => client.webhooks.deliveries(webhookId, { ...options, organization }),
    { limit: 8, refetchInterval: 3_000 },
  )
  return (
    <section className="card" aria-label="Latest attempts">
      <div className="card-header">
        <h2>Latest attempts</h2>
        <Link to="/$orgId/deliveries" params={params} search={{ webhook: webhookId }} className="button button-small">
          Show all
        </Link>
      </div>
      <DataTable
        {...deliveries}
        more={undefined}
        label="Latest attempts"
        rowKey={({ id }) => id}
        columns={[
          {
            label: 'Event',
            cell: (delivery) => (
              <Link
                to="/$orgId/deliveries"
                params={params}
                search={{ webhook: webhookId, delivery: delivery.id }}
                className="mono"
              >
                {delivery.event_type}
              </Link>
            ),
          },
          { label: 'Outcome', cell: (delivery) => <AttemptBadge delivery={delivery} /> },
          { label: 'Started', cell: (delivery) => <RelativeTime at={delivery.started_at} /> },
        ]}
        empty={
          <EmptyState icon={Activity} title="No deliveries yet">
            Send a test event to see how your endpoint answers.
          </EmptyState>
        }
      />
    </section>
  )
}
