import { useQueries } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { client, queryClient, sessionQuery } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { showToast } from '../../components/toasts.tsx'

type Props = { organization: { id: string; name: string } }

const countedMax = 100

/** What is deleted with it. Owners read all of it. */
const counted = {
  'API keys': (organization: string) => client.keys.details({ organization, limit: countedMax }),
  Webhooks: (organization: string) => client.webhooks.list({ organization, limit: countedMax }),
  Databases: (organization: string) => client.databases.list({ organization, limit: countedMax }),
  Backups: (organization: string) => client.backups.list({ organization, limit: countedMax }),
  Members: (organization: string) => client.members.list({ organization, limit: countedMax }),
}

export function DeleteOrganization({ organization }: Props) {
  const [isDeleting, setDeleting] = useState(false)
  return (
    <section className="card" aria-label="Delete the organization">
      <div className="card-header">
        <h2>Delete this organization</h2>
        <Button small look="danger" onClick={() => setDeleting(true)}>
          Delete organization
        </Button>
      </div>
      <p className="card-body muted">
        API keys stop at once, and no delivery begins any more. Databases, backups, webhooks, history, invoices and
        members are erased for good.
      </p>
      {isDeleting && <DeletionDialog organization={organization} onClose={() => setDeleting(false)} />}
    </section>
  )
}

function DeletionDialog({ organization, onClose }: Props & { onClose: () => void }) {
  const navigate = useNavigate()
  const counts = useQueries({
    queries: Object.entries(counted).map(([what, list]) => ({
      queryKey: [organization.id, 'counted', what],
      queryFn: async () => (await list(organization.id).page()).items.length,
    })),
  })
  return (
    <Confirm
      title={`Delete “${organization.name}”?`}
      description="Nobody can undo this, not even the operator. Download what you want to keep first."
      action="Delete organization"
      typed={organization.name}
      onConfirm={async () => {
        await client.organizations.delete(organization.id, { confirm: organization.name })
        // Without it the start page would go back to the organization.
        await queryClient.invalidateQueries({ queryKey: sessionQuery.queryKey })
        await navigate({ to: '/' })
        showToast({ title: `“${organization.name}” is deleted` })
      }}
      onClose={onClose}
    >
      <ul className="plain" aria-label="What is deleted">
        {Object.keys(counted).map((what, i) => (
          <li key={what}>
            {what}: {countText(counts[i]!.data)}
          </li>
        ))}
      </ul>
    </Confirm>
  )
}

const countText = (count: number | undefined): string =>
  count === undefined ? 'all' : count === countedMax ? `${countedMax} or more` : String(count)
