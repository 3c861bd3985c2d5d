import '../../styles/deliveries.css'
import type { SendErrorCode } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { History } from 'lucide-react'
import { lazy, Suspense, useMemo, useState } from 'react'
import { useLiveDeliveries } from '../../api/deliveries.ts'
import { useMember } from '../../api/organization.ts'
import { webhooksQuery } from '../../api/webhook-queries.ts'
import { Button } from '../../components/button.tsx'
import { PageHeader } from '../../components/page.tsx'
import { LoadingChart } from '../../components/states.tsx'
import { type DeliverySearch, rangeMs } from '../../search.ts'
import { DeliveryFilters } from './delivery-filters.tsx'
import { DeliveryList } from './delivery-list.tsx'
import { DeliveryPanel } from './delivery-panel.tsx'
import { Recover } from './recover.tsx'

const Charts = lazy(() => import('./delivery-charts.tsx'))

const route = getRouteApi('/$orgId/deliveries')

export function DeliveriesPage() {
  const organization = useMember()
  const orgId = organization.id
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const [isLive, setLive] = useState(true)
  const [isRecovering, setRecovering] = useState(false)
  const webhooks = useQuery(webhooksQuery(orgId)).data ?? []
  const filter = useFilter(search)
  const deliveries = useLiveDeliveries(orgId, filter, isLive)
  const change = (changes: Partial<DeliverySearch>, options?: { replace: boolean }) =>
    navigate({ search: (before) => ({ ...before, ...changes }), ...options })
  const open = (delivery: string | undefined) =>
    navigate({
      search: (before) => ({ ...before, delivery }),
      replace: search.delivery !== undefined && delivery !== undefined,
    })
  return (
    <div className="wide-page">
      <PageHeader
        title="Deliveries"
        description="Every attempt to send an event to a webhook, as it happens."
        actions={
          organization.can('deliveries:send') &&
          webhooks.length > 0 && (
            <Button onClick={() => setRecovering(true)}>
              <History size={15} aria-hidden="true" />
              Redeliver failed
            </Button>
          )
        }
      />
      <Suspense fallback={<LoadingChart />}>
        <Charts
          organization={orgId}
          webhookId={search.webhook}
          range={search.range ?? '24h'}
          isLive={isLive}
          onTime={(since, until) => change({ since, until })}
        />
      </Suspense>
      <DeliveryFilters
        organization={orgId}
        search={search}
        webhooks={webhooks}
        isLive={isLive}
        onChange={change}
        onLive={setLive}
      />
      <div className={search.delivery ? 'split split-open' : 'split'}>
        <DeliveryList
          {...deliveries}
          webhooks={webhooks}
          selected={search.delivery}
          isGrouped={search.group === 'event'}
          isFiltered={Object.values({ ...search, delivery: undefined, group: undefined }).some(
            (value) => value !== undefined,
          )}
          onClear={() => navigate({ search: ({ delivery, group }) => ({ delivery, group }) })}
          onOpen={open}
        />
        {search.delivery && (
          <DeliveryPanel
            key={search.delivery}
            id={search.delivery}
            known={deliveries.attempts?.find(({ id }) => id === search.delivery)}
            onOpen={open}
            onClose={() => open(undefined)}
          />
        )}
      </div>
      {isRecovering && (
        <Recover
          organization={orgId}
          webhooks={webhooks}
          webhookId={search.webhook}
          onClose={() => setRecovering(false)}
        />
      )}
    </div>
  )
}

/** The start of the range stays the same while the page is open, or each poll would be another list. */
function useFilter({ webhook, status, type, answer, error, event, range, since, until }: DeliverySearch) {
  return useMemo(
    () => ({
      webhookId: webhook,
      status,
      eventTypes: type === undefined ? undefined : [type],
      responseStatus: answer,
      // Of an unknown code the server says so.
      errorCode: error as SendErrorCode | undefined,
      eventId: event,
      since:
        since !== undefined || until !== undefined || range === undefined
          ? since
          : new Date(Date.now() - rangeMs(range)).toISOString(),
      until,
    }),
    [webhook, status, type, answer, error, event, range, since, until],
  )
}
