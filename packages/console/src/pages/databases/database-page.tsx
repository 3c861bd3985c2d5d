import '../../styles/webhooks.css'
import type { Database } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { lazy, Suspense } from 'react'
import { databaseQuery } from '../../api/database-queries.ts'
import { useMember } from '../../api/organization.ts'
import { IdChip } from '../../components/copy.tsx'
import { Notice } from '../../components/notice.tsx'
import { PageHeader } from '../../components/page.tsx'
import { Stat } from '../../components/stat.tsx'
import { LoadingChart } from '../../components/states.tsx'
import { RelativeTime } from '../../components/time.tsx'
import { PageFailure, PageLoading } from '../../layout/fallbacks.tsx'
import { Backups } from './backups.tsx'
import { withPassword } from './connection-snippets.ts'
import { DatabaseConnections, DatabaseSize } from './database-stats.tsx'
import { DatabaseStatus } from './database-status.tsx'
import { DeleteDatabase } from './delete-database.tsx'
import { HowToConnect } from './how-to-connect.tsx'

const UsageCharts = lazy(() => import('./usage-charts.tsx'))

const route = getRouteApi('/$orgId/databases/$databaseId')

export function DatabasePage() {
  const { orgId, databaseId } = route.useParams()
  const database = useQuery(databaseQuery(orgId, databaseId))
  if (database.data !== undefined) return <LoadedDatabase database={database.data} />
  if (database.error !== null)
    return <PageFailure error={database.error} retry={database.refetch} what="The database" />
  return <PageLoading />
}

function LoadedDatabase({ database }: { database: Database }) {
  const organization = useMember()
  const orgId = organization.id
  return (
    <>
      <PageHeader
        title={database.name}
        description={<IdChip id={database.id} />}
        crumbs={
          <Link to="/$orgId/databases" params={{ orgId }}>
            Databases
          </Link>
        }
      />
      <div className="stack">
        {database.failure !== null && <Notice kind="danger">{database.failure}</Notice>}
        {database.storage?.message && <Notice kind="warning">{database.storage.message}</Notice>}
        <section className="card" aria-label="State">
          <dl className="stat-grid">
            <Stat label="Status">
              <DatabaseStatus database={database} />
            </Stat>
            <Stat label="Size">
              <DatabaseSize organization={orgId} database={database} />
            </Stat>
            <Stat label="Connections">
              <DatabaseConnections organization={orgId} database={database} />
            </Stat>
            <Stat label="Address">
              <span className="mono">{database.host === null ? '–' : `${database.host}:${database.port}`}</span>
            </Stat>
            <Stat label="Created">
              <RelativeTime at={database.created_at} />
            </Stat>
          </dl>
        </section>
        {database.connection_string !== null && (
          <section className="card" aria-label="Connect">
            <div className="card-header">
              <h2>How to connect</h2>
              <span className="small muted">Put the password that was shown at creation in place of PASSWORD.</span>
            </div>
            <div className="card-body">
              <HowToConnect url={withPassword(database.connection_string, 'PASSWORD')} />
            </div>
          </section>
        )}
        {database.status !== 'provisioning' && (
          <section className="card" aria-label="Last 7 days">
            <div className="card-header">
              <h2>Last 7 days</h2>
            </div>
            <div className="card-body">
              <Suspense fallback={<LoadingChart />}>
                <UsageCharts organization={orgId} databaseId={database.id} />
              </Suspense>
            </div>
          </section>
        )}
        {organization.can('backups:read') && <Backups organization={organization} database={database} />}
        {organization.can('databases:delete') && database.status !== 'deleting' && (
          <DeleteDatabase organization={orgId} database={database} />
        )}
      </div>
    </>
  )
}
