import type { DatabaseUsage } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { client } from '../../api/client.ts'
import { type Bar, BarChart } from '../../components/bar-chart.tsx'
import { ErrorState, LoadingChart } from '../../components/states.tsx'
import { minuteText } from '../../components/time-axis.ts'
import { bytesText, countText } from '../../words/numbers.ts'

type Hour = DatabaseUsage['hours'][number]

const hourMs = 3_600_000

/** Every hour of the last seven days. */
function barsOf(hours: readonly Hour[], value: (hour: Hour) => number): Bar[] {
  const known = new Map(hours.map((hour) => [Date.parse(hour.at), hour]))
  const last = Math.floor(Date.now() / hourMs) * hourMs
  return Array.from({ length: 7 * 24 }, (_, index) => {
    const at = last - (7 * 24 - 1 - index) * hourMs
    const hour = known.get(at)
    return { at, label: minuteText(at), parts: hour ? [{ tone: 'accent', value: value(hour) }] : [] }
  })
}

/** The unit in which the numbers of the axis are round. */
const unitOf = (bytes: number): number => 1_024 ** Math.max(0, Math.floor(Math.log2(Math.max(bytes, 1)) / 10))

/** The size and the connections of a database over seven days. */
export default function UsageCharts({ organization, databaseId }: { organization: string; databaseId: string }) {
  const usage = useQuery({
    queryKey: [organization, 'database-usage', databaseId],
    queryFn: ({ signal }) => client.databases.usage(databaseId, { organization, signal }),
    refetchInterval: 60_000,
  })
  if (usage.data === undefined) {
    if (usage.error !== null) return <ErrorState error={usage.error} retry={usage.refetch} what="The last seven days" />
    return <LoadingChart />
  }
  const { hours } = usage.data
  if (hours.length === 0)
    return <p className="muted">Nothing was measured yet. The first numbers appear in a minute.</p>
  const unit = unitOf(Math.max(...hours.map(({ size_bytes }) => size_bytes)))
  return (
    <div className="two-columns">
      <BarChart
        title="Size"
        names={['without write-ahead log']}
        format={(value) => bytesText(value * unit)}
        bars={barsOf(hours, ({ size_bytes }) => size_bytes / unit)}
      />
      {hours.every(({ connections }) => connections === 0) ? (
        <p className="muted">Nothing was connected in the last seven days.</p>
      ) : (
        <BarChart
          title="Connections"
          names={['connections at most']}
          format={countText}
          bars={barsOf(hours, ({ connections }) => connections)}
        />
      )}
    </div>
  )
}
