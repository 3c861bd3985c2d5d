import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { barsOf, summaryQuery } from '../../api/summary.ts'
import { BarChart } from '../../components/bar-chart.tsx'
import { ErrorState, LoadingChart } from '../../components/states.tsx'
import { countText } from '../../words/numbers.ts'

/** Attempts by outcome over the last day. */
export default function DayChart({ organization }: { organization: string }) {
  const summary = useQuery(summaryQuery(organization, '24h'))
  const params = { orgId: organization }
  return (
    <>
      <div className="card-header">
        <h2>
          {summary.data?.cutAt ? `Newest attempts, since ${summary.data.cutAt}` : 'Attempts of the last 24 hours'}
        </h2>
        {summary.data && (
          <p className="legend">
            <span className="legend-success">
              <strong className="number">{countText(summary.data.succeeded)}</strong> succeeded
            </span>
            <Link
              to="/$orgId/deliveries"
              params={params}
              search={{ status: 'failed', range: '24h' }}
              className="legend-danger"
            >
              <strong className="number">{countText(summary.data.failed)}</strong> failed
            </Link>
          </p>
        )}
      </div>
      <div className="card-body">
        {summary.isPending && <LoadingChart />}
        {summary.error && !summary.data && (
          <ErrorState error={summary.error} retry={summary.refetch} what="The chart" />
        )}
        {summary.data && (
          <BarChart
            title="Attempts per hour"
            names={['succeeded', 'failed']}
            format={countText}
            bars={barsOf(summary.data, (bucket) => [
              { tone: 'success', value: bucket?.succeeded ?? 0 },
              { tone: 'danger', value: bucket?.failed ?? 0 },
            ])}
          />
        )}
      </div>
    </>
  )
}
