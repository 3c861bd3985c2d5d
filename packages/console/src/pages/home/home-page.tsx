import '../../styles/webhooks.css'
import '../../styles/home.css'
import type { Database } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { lazy, Suspense } from 'react'
import { databasesQuery } from '../../api/database-queries.ts'
import { useMember } from '../../api/organization.ts'
import { webhooksQuery } from '../../api/webhook-queries.ts'
import { PageHeader } from '../../components/page.tsx'
import { LoadingChart } from '../../components/states.tsx'
import { PageLoading } from '../../layout/fallbacks.tsx'
import { DatabaseStatus } from '../databases/database-status.tsx'
import { urgencyOf as urgencyOfWebhook } from '../webhooks/failing.tsx'
import { LastFailure, SuccessShare, WebhookStatus } from '../webhooks/health.tsx'
import { HomeList } from './home-list.tsx'
import { NextSteps, useNextSteps } from './next-steps.tsx'

const DayChart = lazy(() => import('./day-chart.tsx'))

export function HomePage() {
  const organization = useMember()
  const steps = useNextSteps(organization)
  return (
    <>
      <PageHeader title="Home" heading={organization.name} />
      {steps === 'loading' && <PageLoading />}
      {/* Hidden, and loading, until it is known whether steps stand above it: then nothing moves. */}
      <div className="stack" hidden={steps === 'loading'}>
        {steps !== 'loading' && steps.length > 0 && <NextSteps steps={steps} />}
        {organization.can('deliveries:read') && (
          <section className="card" aria-label="Attempts of the last day">
            <Suspense
              fallback={
                <div className="card-body">
                  <LoadingChart />
                </div>
              }
            >
              <DayChart organization={organization.id} />
            </Suspense>
          </section>
        )}
        <div className="two-columns">
          {organization.can('webhooks:read') && <Endpoints orgId={organization.id} />}
          {organization.can('databases:read') && <Databases orgId={organization.id} />}
        </div>
      </div>
    </>
  )
}

function Endpoints({ orgId }: { orgId: string }) {
  return (
    <HomeList
      title="Endpoints"
      query={useQuery(webhooksQuery(orgId))}
      urgency={urgencyOfWebhook}
      empty="There is no webhook yet."
      all={
        <Link to="/$orgId/webhooks" params={{ orgId }} className="button button-small">
          All webhooks
        </Link>
      }
      row={(webhook) => (
        <>
          <div className="grow">
            <div className="row">
              <Link
                to="/$orgId/webhooks/$webhookId"
                params={{ orgId, webhookId: webhook.id }}
                className="truncate cell-title"
              >
                {webhook.url.replace(/^https:\/\//, '')}
              </Link>
              <WebhookStatus webhook={webhook} />
            </div>
            {webhook.health.failed > 0 && <LastFailure health={webhook.health} />}
          </div>
          <SuccessShare health={webhook.health} />
        </>
      )}
    />
  )
}

const order = { failed: 0, unreachable: 0, provisioning: 3, deleting: 4, available: 5 }
const storageOrder = { stopped: 1, read_only: 2, normal: 5 }

/** A database that reached its storage limit is available, and still needs somebody. */
const urgencyOf = ({ status, storage }: Database): number =>
  Math.min(order[status], storageOrder[storage?.state ?? 'normal'])

function Databases({ orgId }: { orgId: string }) {
  return (
    <HomeList
      title="Databases"
      query={useQuery(databasesQuery(orgId))}
      urgency={urgencyOf}
      empty="There is no database yet."
      all={
        <Link to="/$orgId/databases" params={{ orgId }} className="button button-small">
          All databases
        </Link>
      }
      row={(database) => (
        <>
          <Link
            to="/$orgId/databases/$databaseId"
            params={{ orgId, databaseId: database.id }}
            className="grow truncate cell-title"
          >
            {database.name}
          </Link>
          <DatabaseStatus database={database} />
        </>
      )}
    />
  )
}
