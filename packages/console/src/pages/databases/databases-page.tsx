import '../../styles/webhooks.css'
import type { Database } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { Link, useLocation, useNavigate } from '@tanstack/react-router'
import { Database as DatabaseIcon, Plus } from 'lucide-react'
import { databasesQuery } from '../../api/database-queries.ts'
import { useMember } from '../../api/organization.ts'
import { Button } from '../../components/button.tsx'
import { IdChip } from '../../components/copy.tsx'
import { type Column, DataTable } from '../../components/data-table.tsx'
import { PageHeader } from '../../components/page.tsx'
import { EmptyState } from '../../components/states.tsx'
import { RelativeTime } from '../../components/time.tsx'
import { CreateDatabase } from './create-database.tsx'
import { DatabaseConnections, DatabaseSize } from './database-stats.tsx'
import { DatabaseStatus } from './database-status.tsx'

export function DatabasesPage() {
  const organization = useMember()
  const orgId = organization.id
  const navigate = useNavigate()
  const { hash } = useLocation()
  const databases = useQuery(databasesQuery(orgId))
  const setCreating = (isOpen: boolean) => navigate({ to: '.', hash: isOpen ? 'create' : '', replace: !isOpen })
  const create = organization.can('databases:create') && (
    <Button look="primary" onClick={() => setCreating(true)}>
      <Plus size={16} aria-hidden="true" />
      Create database
    </Button>
  )
  const columns: Column<Database>[] = [
    {
      label: 'Name',
      cell: (database) => (
        <Link
          to="/$orgId/databases/$databaseId"
          params={{ orgId, databaseId: database.id }}
          className="cell-title break"
        >
          {database.name}
        </Link>
      ),
    },
    { label: 'Status', cell: (database) => <DatabaseStatus database={database} /> },
    {
      label: 'Address',
      cell: (database) =>
        database.host === null ? (
          <span className="muted">–</span>
        ) : (
          <span className="mono break">{`${database.host}:${database.port}`}</span>
        ),
    },
    { label: 'Size', cell: (database) => <DatabaseSize organization={orgId} database={database} /> },
    { label: 'Connections', cell: (database) => <DatabaseConnections organization={orgId} database={database} /> },
    { label: 'Id', cell: (database) => <IdChip id={database.id} short /> },
    { label: 'Created', cell: (database) => <RelativeTime at={database.created_at} /> },
  ]
  return (
    <>
      <PageHeader title="Databases" description="PostgreSQL databases of this organization." actions={create} />
      <section className="card" aria-label="Databases">
        <DataTable
          rows={databases.data}
          error={databases.error}
          retry={databases.refetch}
          label="Databases"
          columns={columns}
          rowKey={(database) => database.id}
          empty={
            <EmptyState icon={DatabaseIcon} title="No databases yet" action={create}>
              A database is ready in seconds. Its password is shown once, when it is created.
            </EmptyState>
          }
        />
      </section>
      {hash === 'create' && organization.can('databases:create') && (
        <CreateDatabase organization={orgId} onClose={() => setCreating(false)} />
      )}
    </>
  )
}
