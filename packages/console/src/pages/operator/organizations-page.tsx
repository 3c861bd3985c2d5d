import type { Organization } from '@keyhook/client'
import { Link, useNavigate } from '@tanstack/react-router'
import { Building2 } from 'lucide-react'
import { useState } from 'react'
import { queryClient } from '../../api/client.ts'
import { useList } from '../../api/lists.ts'
import { readOrganization } from '../../api/opened-organization.ts'
import { operatorClient } from '../../api/operator.ts'
import { Button } from '../../components/button.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { IdChip } from '../../components/copy.tsx'
import { type Column, DataTable } from '../../components/data-table.tsx'
import { NameDialog } from '../../components/name-dialog.tsx'
import { PageHeader } from '../../components/page.tsx'
import { EmptyState } from '../../components/states.tsx'
import { RelativeTime } from '../../components/time.tsx'
import { Deletions, deletionsKey } from './deletions.tsx'
import { OrganizationQuotas } from './quotas.tsx'

const queryKey = ['operator', 'organizations']

type Act = (organization: Organization) => void

const columns = (open: Act, showQuotas: Act, remove: Act): Column<Organization>[] => [
  {
    label: 'Name',
    cell: (organization) => (
      <Link to="/$orgId" params={{ orgId: organization.id }} className="cell-title break">
        {organization.name}
      </Link>
    ),
  },
  { label: 'Id', cell: (organization) => <IdChip id={organization.id} /> },
  { label: 'Created', cell: (organization) => <RelativeTime at={organization.created_at} /> },
  {
    label: 'Actions',
    quiet: true,
    className: 'cell-end cell-actions',
    cell: (organization) => (
      <div className="row">
        <Button small onClick={() => showQuotas(organization)} aria-label={`Quotas of ${organization.name}`}>
          Quotas
        </Button>
        <Button small onClick={() => open(organization)} aria-label={`Open ${organization.name}`}>
          Open
        </Button>
        <Button small onClick={() => remove(organization)} aria-label={`Delete ${organization.name}`}>
          Delete
        </Button>
      </div>
    ),
  },
]

export function OrganizationsPage() {
  const organizations = useList(queryKey, (options) => operatorClient.organizations.list(options))
  const [isCreating, setCreating] = useState(false)
  const [opening, setOpening] = useState<Organization | null>(null)
  const [limiting, setLimiting] = useState<Organization | null>(null)
  const [deleting, setDeleting] = useState<Organization | null>(null)
  const navigate = useNavigate()
  const create = (
    <Button look="primary" onClick={() => setCreating(true)}>
      Create organization
    </Button>
  )
  return (
    <>
      <PageHeader title="Organizations" description="All organizations of this installation." actions={create} />
      <div className="stack">
        <section className="card" aria-label="Organizations">
          <DataTable
            {...organizations}
            label="Organizations"
            columns={columns(setOpening, setLimiting, setDeleting)}
            rowKey={({ id }) => id}
            empty={
              <EmptyState icon={Building2} title="No organizations yet" action={create}>
                Keys, webhooks and databases belong to an organization.
              </EmptyState>
            }
          />
        </section>
        <Deletions />
      </div>
      {deleting && (
        <Confirm
          title={`Delete “${deleting.name}”?`}
          description="API keys stop at once, and no delivery begins any more. Databases, backups, webhooks, history, invoices and members are erased for good."
          action="Delete organization"
          typed={deleting.name}
          onConfirm={async () => {
            await operatorClient.organizations.delete(deleting.id, { confirm: deleting.name })
            await Promise.all([
              queryClient.invalidateQueries({ queryKey }),
              queryClient.invalidateQueries({ queryKey: deletionsKey }),
            ])
          }}
          onClose={() => setDeleting(null)}
        />
      )}
      {opening && (
        <Confirm
          title={`Open “${opening.name}” to read?`}
          description="You can read the pages of the organization and change nothing. The audit log of the organization records that the operator opened it."
          action="Open"
          danger={false}
          onConfirm={async () => {
            await readOrganization(opening)
            await navigate({ to: '/$orgId', params: { orgId: opening.id } })
          }}
          onClose={() => setOpening(null)}
        />
      )}
      {limiting && <OrganizationQuotas organization={limiting} onClose={() => setLimiting(null)} />}
      {isCreating && (
        <NameDialog
          title="Create organization"
          description="Add the first member with “keyhook member set” or over the operator API."
          action="Create organization"
          what="organization"
          onSubmit={async (name) => {
            await operatorClient.organizations.create({ name })
            await queryClient.invalidateQueries({ queryKey })
            setCreating(false)
          }}
          onClose={() => setCreating(false)}
        />
      )}
    </>
  )
}
