import '../../styles/keys.css'
import type { ApiKeyDetails, MemberRole, OrganizationMember } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { Bot } from 'lucide-react'
import { useState } from 'react'
import { client } from '../../api/client.ts'
import type { CurrentOrganization } from '../../api/organization.ts'
import { Button } from '../../components/button.tsx'
import { type Column, DataTable } from '../../components/data-table.tsx'
import { EmptyState } from '../../components/states.tsx'
import { RelativeTime } from '../../components/time.tsx'
import { CreateKey } from '../keys/create-key.tsx'
import { KeyActions, KeyDialog, type OpenKeyDialog } from '../keys/key-actions.tsx'
import { KeyUse } from '../keys/key-cells.tsx'
import { CreateServiceMember } from './create-service-member.tsx'
import { RemoveServiceMember } from './remove-service-member.tsx'
import { RoleSelect } from './role-select.tsx'

type Opened =
  | { dialog: 'create' }
  | { dialog: 'key' | 'remove'; member: OrganizationMember }
  | { dialog: 'of key'; of: OpenKeyDialog }

type Props = {
  organization: CurrentOrganization
  changeRole: (member: OrganizationMember, role: MemberRole) => Promise<void>
}

/** Members without a login, with the keys that act as them. Not shown if there are none and none can be created. */
export function ServiceMembers({ organization, changeRole }: Props) {
  const orgId = organization.id
  const [opened, setOpened] = useState<Opened | null>(null)
  const mayCreate = organization.can('service-members:manage')
  const mayManage = organization.can('members:manage')
  const members = useQuery({
    queryKey: [orgId, 'members', 'service'],
    queryFn: async ({ signal }) =>
      (await client.members.list({ organization: orgId, signal }).toArray()).filter(({ service }) => service),
    refetchInterval: 30_000,
  })
  const keys = useQuery({
    queryKey: [orgId, 'keys', 'of service members'],
    queryFn: ({ signal }) =>
      client.keys.details({ organization: orgId, status: 'active', limit: 1_000, signal }).toArray(),
    enabled: organization.reach('keys:read') === 'all' && members.data !== undefined && members.data.length > 0,
  })
  if (members.data?.length === 0 && !mayCreate) return null
  const keysOf = (member: OrganizationMember) => keys.data?.filter((key) => key.created_by === member.user_id)

  const columns: Column<OrganizationMember>[] = [
    {
      label: 'Service member',
      cell: (member) => (
        <div>
          <span className="cell-title break">{member.name}</span>
          <div className="small muted">
            Created <RelativeTime at={member.created_at} />
          </div>
        </div>
      ),
    },
    {
      label: 'Role',
      cell: (member) => (
        <RoleSelect
          member={member}
          offered={mayManage ? ['admin', 'member'] : []}
          onChange={(role) => changeRole(member, role)}
        />
      ),
    },
    {
      label: 'API keys',
      cell: (member) => (
        <div className="stack-small">
          <KeysOf keys={keysOf(member)} open={(of) => setOpened({ dialog: 'of key', of })} />
          {mayCreate && (
            <div>
              <Button
                small
                onClick={() => setOpened({ dialog: 'key', member })}
                aria-label={`Create key for ${member.name}`}
              >
                Create key
              </Button>
            </div>
          )}
        </div>
      ),
    },
    {
      label: 'Actions',
      quiet: true,
      className: 'cell-end cell-actions',
      cell: (member) =>
        mayManage && (
          <Button small onClick={() => setOpened({ dialog: 'remove', member })} aria-label={`Remove ${member.name}`}>
            Remove
          </Button>
        ),
    },
  ]
  const close = () => setOpened(null)
  const create = mayCreate && (
    <Button small onClick={() => setOpened({ dialog: 'create' })}>
      Create service member
    </Button>
  )
  return (
    <section className="card" aria-label="Service members">
      <div className="card-header">
        <h2>Service members</h2>
        {members.data && members.data.length > 0 && create}
      </div>
      <DataTable
        rows={members.data}
        error={members.error}
        retry={members.refetch}
        label="Service members"
        columns={columns}
        rowKey={(member) => member.user_id}
        empty={
          <EmptyState icon={Bot} title="No service members yet" action={create}>
            A service member has no login. API keys that act as it stay valid when the person who created them leaves.
          </EmptyState>
        }
      />
      {opened?.dialog === 'create' && <CreateServiceMember organization={orgId} onClose={close} />}
      {opened?.dialog === 'key' && <CreateKey organization={orgId} actsAs={opened.member} onClose={close} />}
      {opened?.dialog === 'remove' && (
        <RemoveServiceMember member={opened.member} keys={keysOf(opened.member)} organization={orgId} onClose={close} />
      )}
      {opened?.dialog === 'of key' && <KeyDialog organization={orgId} {...opened.of} onClose={close} />}
    </section>
  )
}

type KeysProps = { keys: readonly ApiKeyDetails[] | undefined; open: (dialog: OpenKeyDialog) => void }

function KeysOf({ keys, open }: KeysProps) {
  if (keys === undefined) return <span className="muted">–</span>
  if (keys.length === 0) return <span className="muted">None</span>
  return (
    <ul className="stack-small">
      {keys.map((key) => (
        <li key={key.id} className="row row-wrap">
          <div className="grow">
            <span className="break">{key.name}</span> <span className="mono muted">{key.key_prefix}…</span>
            <div className="small muted">
              Last used: <KeyUse apiKey={key} />
            </div>
          </div>
          <KeyActions apiKey={key} isOfService open={open} />
        </li>
      ))}
    </ul>
  )
}
