import '../../styles/webhooks.css'
import '../../styles/home.css'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { lazy, Suspense } from 'react'
import { databasesQuery } from '../../api/database-queries.ts'
import { type CurrentOrganization, useMember } from '../../api/organization.ts'
import { webhooksQuery } from '../../api/webhook-queries.ts'
import { PageHeader } from '../../components/page.tsx'
import { ErrorState, LoadingBlock, LoadingChart } from '../../components/states.tsx'
import { DatabaseStatus } from '../databases/database-status.tsx'
import { LastFailure, SuccessShare, WebhookStatus } from '../webhooks/health.tsx'
import { NextSteps } from './next-steps.tsx'

const DayChart = lazy(() => import('./day-chart.tsx'))

export function HomePage() {
  const organization = useMember()
  return (
    <>
      <PageHeader title="Home" heading={organization.name} />
      <div className="stack">
        <NextSteps organization={organization} />
        {organization.can('deliveries:read') && (
          <section className="card" aria-label="Deliveries of the last day">
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
          {organization.can('webhooks:read') && <Endpoints organization={organization} />}
          {organization.can('databases:read') && <Databases organization={organization} />}
        </div>
      </div>
    </>
  )
}

/** Failing ones first. */
function Endpoints({ organization }: { organization: CurrentOrganization }) {
  const webhooks = useQuery(webhooksQuery(organization.id))
  const params = { orgId: organization.id }
  const ordered = webhooks.data
    ?.toSorted((a, b) => (a.health.success_share ?? 2) - (b.health.success_share ?? 2))
    .slice(0, 6)
  return (
    <section className="card" aria-label="Endpoints">
      <div className="card-header">
        <h2>Endpoints</h2>
        <Link to="/$orgId/webhooks" params={params} className="button button-small">
          All webhooks
        </Link>
      </div>
      {webhooks.error && !ordered && <ErrorState error={webhooks.error} retry={webhooks.refetch} what="The webhooks" />}
      {!webhooks.error && !ordered && <LoadingBlock />}
      {ordered?.length === 0 && <p className="card-body muted">There is no webhook yet.</p>}
      <ul>
        {ordered?.map((webhook) => (
          <li key={webhook.id} className="home-row">
            <div className="grow">
              <div className="row">
                <Link
                  to="/$orgId/webhooks/$webhookId"
                  params={{ ...params, webhookId: webhook.id }}
                  className="truncate cell-title"
                >
                  {webhook.url.replace(/^https:\/\//, '')}
                </Link>
                <WebhookStatus webhook={webhook} />
              </div>
              {webhook.health.failed > 0 && <LastFailure health={webhook.health} />}
            </div>
            <SuccessShare health={webhook.health} />
          </li>
        ))}
      </ul>
    </section>
  )
}

const order = { failed: 0, provisioning: 1, deleting: 2, available: 3 }

/** Unhealthy ones first. */
function Databases({ organization }: { organization: CurrentOrganization }) {
  const databases = useQuery(databasesQuery(organization.id))
  const params = { orgId: organization.id }
  const ordered = databases.data?.toSorted((a, b) => order[a.status] - order[b.status]).slice(0, 6)
  return (
    <section className="card" aria-label="Databases">
      <div className="card-header">
        <h2>Databases</h2>
        <Link to="/$orgId/databases" params={params} className="button button-small">
          All databases
        </Link>
      </div>
      {databases.error && !ordered && (
        <ErrorState error={databases.error} retry={databases.refetch} what="The databases" />
      )}
      {!databases.error && !ordered && <LoadingBlock />}
      {ordered?.length === 0 && <p className="card-body muted">There is no database yet.</p>}
      <ul>
        {ordered?.map((database) => (
          <li key={database.id} className="home-row">
            <Link
              to="/$orgId/databases/$databaseId"
              params={{ ...params, databaseId: database.id }}
              className="grow truncate cell-title"
            >
              {database.name}
            </Link>
            <DatabaseStatus status={database.status} />
          </li>
        ))}
      </ul>
    </section>
  )
}
