import { queryOptions } from '@tanstack/react-query'
import type { Bar } from '../components/bar-chart.tsx'
import { minuteText } from '../components/time-axis.ts'
import { type Range, rangeMs } from '../search.ts'
import { client } from './client.ts'

/** One bar per two minutes, hour, six hours or day. */
const bucketSeconds: Record<Range, number> = { '1h': 120, '24h': 3_600, '7d': 21_600, '30d': 86_400 }

export const summaryQuery = (organization: string, range: Range, webhookId?: string, isLive = true) =>
  queryOptions({
    queryKey: [organization, 'summary', range, webhookId],
    queryFn: async ({ signal }) => {
      // Exactly the range, so that the numbers are those of the list. The first bar is a part of its time, like the last.
      const since = new Date(Date.now() - rangeMs(range)).toISOString()
      const asked = { organization, since, bucketSeconds: bucketSeconds[range], webhookId, signal }
      const summary = await client.deliveries.summary(asked)
      const sinceMs = Date.parse(summary.since)
      // Set where not all were counted: those from then on were.
      return { ...summary, cutAt: sinceMs > Date.parse(since) ? minuteText(sinceMs) : null }
    },
    refetchInterval: isLive ? 10_000 : false,
    placeholderData: (before) => before,
  })

export type Summary = Awaited<ReturnType<typeof client.deliveries.summary>>

/** Every bucket of the range, also those without attempts. */
export function barsOf(
  summary: Summary,
  parts: (bucket: Summary['buckets'][number] | undefined) => Bar['parts'],
): Bar[] {
  const step = summary.bucket_seconds * 1_000
  const known = new Map(summary.buckets.map((bucket) => [Date.parse(bucket.at), bucket]))
  const bars: Bar[] = []
  const first = Math.floor(Date.parse(summary.since) / step) * step
  for (let at = first; at < Date.parse(summary.until); at += step) {
    bars.push({ at, label: minuteText(at), parts: parts(known.get(at)) })
  }
  return bars
}
