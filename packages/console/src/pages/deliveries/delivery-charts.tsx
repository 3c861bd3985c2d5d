import { useQuery } from '@tanstack/react-query'
import { barsOf, summaryQuery } from '../../api/summary.ts'
import { type Bar, BarChart } from '../../components/bar-chart.tsx'
import { ErrorState, LoadingChart } from '../../components/states.tsx'
import type { Range } from '../../search.ts'
import { countText, msText } from '../../words/numbers.ts'
import { rangeTexts } from '../../words/ranges.ts'

type Props = {
  organization: string
  webhookId: string | undefined
  range: Range
  isLive: boolean
  /** The time of a bar that was clicked. */
  onTime: (since: string, until: string) => void
}

/** Outcomes and latency over the chosen time. */
export default function DeliveryCharts({ organization, webhookId, range, isLive, onTime }: Props) {
  const summary = useQuery(summaryQuery(organization, range, webhookId, isLive))
  if (summary.error && !summary.data)
    return <ErrorState error={summary.error} retry={summary.refetch} what="The charts" />
  if (summary.data === undefined) return <LoadingChart />
  const { data } = summary
  const counted = data.cutAt === null ? rangeTexts[range].toLowerCase() : `newest attempts, since ${data.cutAt}`
  const select = ({ at }: Bar) =>
    onTime(new Date(at).toISOString(), new Date(at + data.bucket_seconds * 1_000).toISOString())
  return (
    <div className="chart-cards">
      <section className="card card-body" aria-label="Outcomes">
        <BarChart
          title={`Outcomes, ${counted}`}
          onSelect={select}
          names={['succeeded', 'failed']}
          format={countText}
          legend={
            <span className="legend">
              <span className="legend-success">
                <strong className="number">{countText(data.succeeded)}</strong> succeeded
              </span>
              <span className="legend-danger">
                <strong className="number">{countText(data.failed)}</strong> failed
              </span>
            </span>
          }
          bars={barsOf(data, (bucket) => [
            { tone: 'success', value: bucket?.succeeded ?? 0 },
            { tone: 'danger', value: bucket?.failed ?? 0 },
          ])}
        />
      </section>
      <section className="card card-body" aria-label="Latency">
        <BarChart
          title={`Latency, ${counted}`}
          overlaid
          onSelect={select}
          names={['p95', 'p50']}
          format={msText}
          legend={
            <span className="legend">
              <span className="legend-accent">
                p50 <strong className="number">{msText(data.p50_ms)}</strong>
              </span>
              <span className="legend-accent-soft">
                p95 <strong className="number">{msText(data.p95_ms)}</strong>
              </span>
            </span>
          }
          bars={barsOf(data, (bucket) =>
            bucket === undefined
              ? []
              : [
                  { tone: 'accent-soft', value: bucket.p95_ms ?? 0 },
                  { tone: 'accent', value: bucket.p50_ms ?? 0 },
                ],
          )}
        />
      </section>
    </div>
  )
}
