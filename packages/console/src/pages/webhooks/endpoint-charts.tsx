import { useNavigate } from '@tanstack/react-router'
import { lazy, Suspense, useState } from 'react'
import { Select } from '../../components/select.tsx'
import { LoadingChart } from '../../components/states.tsx'
import type { Range } from '../../search.ts'
import { rangeTexts } from '../../words/ranges.ts'

const Charts = lazy(() => import('../deliveries/delivery-charts.tsx'))

const { any, ...ranges } = rangeTexts

/** Outcomes and latency of one webhook. A click on a bar opens the attempts of its time. */
export function EndpointCharts({ organization, webhookId }: { organization: string; webhookId: string }) {
  const [range, setRange] = useState<Range>('24h')
  const navigate = useNavigate()
  return (
    <section className="stack-small" aria-label="Attempts over time">
      <div className="row">
        <h2 className="grow">Attempts over time</h2>
        <Select<Range> small label="Time of the charts" options={ranges} value={range} onChange={setRange} />
      </div>
      <Suspense fallback={<LoadingChart />}>
        <Charts
          organization={organization}
          webhookId={webhookId}
          range={range}
          isLive
          onTime={(since, until) =>
            navigate({
              to: '/$orgId/deliveries',
              params: { orgId: organization },
              search: { webhook: webhookId, since, until },
            })
          }
        />
      </Suspense>
    </section>
  )
}
