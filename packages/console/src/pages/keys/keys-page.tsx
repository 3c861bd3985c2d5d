import type { ApiKeyDetails } from '@keyhook/client'
import { getRouteApi, useLocation } from '@tanstack/react-router'
import { KeyRound, Plus } from 'lucide-react'
import { useState } from 'react'
import { client } from '../../api/client.ts'
import { useList } from '../../api/lists.ts'
import { useMember } from '../../api/organization.ts'
import { Button } from '../../components/button.tsx'
import { IdChip } from '../../components/copy.tsx'
import { type Column, DataTable } from '../../components/data-table.tsx'
import { PageHeader } from '../../components/page.tsx'
import { PersonName, useMembers } from '../../components/person.tsx'
import { EmptyState } from '../../components/states.tsx'
import { RelativeTime } from '../../components/time.tsx'
import { CreateKey } from './create-key.tsx'
import { KeyActions, KeyDialog, type OpenKeyDialog } from './key-actions.tsx'
import { KeyName, KeyPermissions, KeyUse } from './key-cells.tsx'

const route = getRouteApi('/$orgId/keys')

export function KeysPage() {
  const organization = useMember()
  const navigate = route.useNavigate()
  const { status = 'active' } = route.useSearch()
  const { hash } = useLocation()
  const [open, setOpen] = useState<OpenKeyDialog | null>(null)
  const keys = useList(
    [organization.id, 'keys', status],
    (options) => client.keys.details({ ...options, status, organization: organization.id }),
    { refetchInterval: 30_000 },
  )
  const serviceMembers = new Set(useMembers()?.flatMap((one) => (one.service ? [one.user_id] : [])))
  const names = new Map(keys.rows?.map((key) => [key.id, key.name]))
  const setCreating = (isOpen: boolean) => navigate({ search: true, hash: isOpen ? 'create' : '', replace: !isOpen })
  const create = organization.can('keys:create') && (
    <Button look="primary" onClick={() => setCreating(true)}>
      <Plus size={16} aria-hidden="true" />
      Create key
    </Button>
  )

  const columns: Column<ApiKeyDetails>[] = [
    { label: 'Name', cell: (key) => <KeyName apiKey={key} /> },
    { label: 'Permissions', cell: (key) => <KeyPermissions apiKey={key} /> },
    {
      label: 'Created',
      cell: (key) => (
        <div>
          <PersonName id={key.created_by} />
          {key.created_by_key !== null && (
            <div className="small muted">
              with {names.get(key.created_by_key) ?? <IdChip id={key.created_by_key} short />}
            </div>
          )}
          <div className="small muted">
            <RelativeTime at={key.created_at} />
          </div>
        </div>
      ),
    },
    {
      label: 'Expires',
      cell: (key) =>
        key.expires_at === null ? <span className="muted">Never</span> : <RelativeTime at={key.expires_at} />,
    },
    { label: 'Last used', cell: (key) => <KeyUse apiKey={key} /> },
    {
      label: 'Actions',
      quiet: true,
      className: 'cell-end cell-actions',
      cell: (key) => <KeyActions apiKey={key} isOfService={serviceMembers.has(key.created_by)} open={setOpen} />,
    },
  ]

  return (
    <>
      <PageHeader
        title="API keys"
        description={
          organization.reach('keys:read') === 'own'
            ? 'Keys that you created. A key acts as you, with your current role.'
            : 'A key acts as the person who created it, or as a service member, with the role that they have now.'
        }
        actions={create}
      />
      <section className="card" aria-label="API keys">
        <div className="card-header">
          <fieldset className="segments" aria-label="Which keys">
            <button type="button" aria-pressed={status === 'active'} onClick={() => navigate({ search: {} })}>
              Active
            </button>
            <button
              type="button"
              aria-pressed={status === 'all'}
              onClick={() => navigate({ search: { status: 'all' } })}
            >
              All
            </button>
          </fieldset>
        </div>
        <DataTable
          {...keys}
          label="API keys"
          columns={columns}
          rowKey={(key) => key.id}
          empty={
            <EmptyState
              icon={KeyRound}
              title={status === 'active' ? 'No active API keys' : 'No API keys yet'}
              action={create}
            >
              Create a key for a script, a CI pipeline or a backend service, which then needs no login.
            </EmptyState>
          }
        />
      </section>
      {hash === 'create' && organization.can('keys:create') && (
        <CreateKey organization={organization.id} onClose={() => setCreating(false)} />
      )}
      {open && <KeyDialog organization={organization.id} {...open} onClose={() => setOpen(null)} />}
    </>
  )
}
