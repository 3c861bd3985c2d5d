import type { Invitation, MemberRole, OrganizationMember } from '@keyhook/client'
import { useLocation, useNavigate } from '@tanstack/react-router'
import { UserPlus, Users } from 'lucide-react'
import { useState } from 'react'
import { client, queryClient, sessionQuery } from '../../api/client.ts'
import { useList } from '../../api/lists.ts'
import { useMember, useSession } from '../../api/organization.ts'
import { Badge } from '../../components/badge.tsx'
import { Button } from '../../components/button.tsx'
import { type Column, DataTable } from '../../components/data-table.tsx'
import { PageHeader } from '../../components/page.tsx'
import { EmptyState } from '../../components/states.tsx'
import { RelativeTime } from '../../components/time.tsx'
import { showToast, toastError } from '../../components/toasts.tsx'
import { UserBadge } from '../../components/user-badge.tsx'
import { Invite } from './invite.tsx'
import { RemoveMember } from './remove-member.tsx'
import { RoleSelect } from './role-select.tsx'
import { roleNames, rolesOffered } from './roles.ts'
import { ServiceMembers } from './service-members.tsx'

export function MembersPage() {
  const organization = useMember()
  const orgId = organization.id
  const { user } = useSession()
  const navigate = useNavigate()
  const { hash } = useLocation()
  const [removing, setRemoving] = useState<OrganizationMember | null>(null)
  const mayManage = organization.can('members:manage')
  const members = useList([orgId, 'members'], (options) => client.members.list({ ...options, organization: orgId }), {
    refetchInterval: 30_000,
  })
  const refresh = () => queryClient.invalidateQueries({ queryKey: [orgId, 'members'] })
  const setInviting = (isOpen: boolean) => navigate({ to: '.', hash: isOpen ? 'invite' : '', replace: !isOpen })
  const change = (member: OrganizationMember, role: MemberRole) =>
    client.members.update(member.user_id, { role }, { organization: orgId }).then(async () => {
      showToast({ title: `${member.name ?? member.email} is now ${roleNames[role].toLowerCase()}` })
      // One's own role changes what the pages offer.
      await Promise.all([refresh(), queryClient.invalidateQueries({ queryKey: sessionQuery.queryKey })])
    }, toastError('The role was not changed'))
  const offered = rolesOffered(organization.role)
  const owners = members.rows?.filter(({ role }) => role === 'owner')
  // Somebody has to stay who can manage the organization; the server refuses it too.
  const isLastOwner = ({ role }: OrganizationMember) =>
    role === 'owner' && owners?.length === 1 && members.more === undefined
  const mayChange = (member: OrganizationMember) => mayManage && offered.includes(member.role) && !isLastOwner(member)

  const columns: Column<OrganizationMember>[] = [
    {
      label: 'Member',
      cell: (member) => (
        <div>
          <span className="cell-title break">{member.name ?? member.email}</span>{' '}
          {member.user_id === user?.id && <Badge>You</Badge>}{' '}
          {member.verified && <Badge tone="success">Verified</Badge>} <UserBadge of={member} />
          {member.name !== null && <div className="small muted break">{member.email}</div>}
        </div>
      ),
    },
    {
      label: 'Role',
      cell: (member) => (
        <RoleSelect
          member={member}
          offered={mayChange(member) ? offered : []}
          onChange={(role) => change(member, role)}
        />
      ),
    },
    { label: 'Joined', cell: (member) => <RelativeTime at={member.created_at} /> },
    {
      label: 'Actions',
      quiet: true,
      className: 'cell-end cell-actions',
      cell: (member) =>
        mayChange(member) && (
          <Button small onClick={() => setRemoving(member)} aria-label={`Remove ${member.email}`}>
            Remove
          </Button>
        ),
    },
  ]
  return (
    <>
      <PageHeader
        title="Members"
        description="People and service members of this organization. A role decides what they, and the keys that act as them, may do."
        actions={
          mayManage && (
            <Button look="primary" onClick={() => setInviting(true)}>
              <UserPlus size={16} aria-hidden="true" />
              Invite
            </Button>
          )
        }
      />
      <div className="stack">
        <section className="card" aria-label="Members">
          <DataTable
            {...members}
            rows={members.rows?.filter(({ service }) => !service)}
            label="Members"
            columns={columns}
            rowKey={(member) => member.user_id}
            empty={
              <EmptyState icon={Users} title="No members yet">
                The operator adds the first member, who can then invite others.
              </EmptyState>
            }
          />
        </section>
        <ServiceMembers organization={organization} changeRole={change} />
        {mayManage && <Invitations organization={orgId} />}
      </div>
      {hash === 'invite' && mayManage && (
        <Invite organization={orgId} roles={offered} onClose={() => setInviting(false)} />
      )}
      {removing && (
        <RemoveMember member={removing} organization={orgId} onRemoved={refresh} onClose={() => setRemoving(null)} />
      )}
    </>
  )
}

/** Those that nobody has accepted yet; not shown if there are none. */
function Invitations({ organization }: { organization: string }) {
  const queryKey = [organization, 'invitations']
  const invitations = useList(queryKey, (options) => client.invitations.list({ ...options, organization }), {
    refetchInterval: 30_000,
  })
  if (invitations.rows?.length === 0) return null
  const withdraw = (invitation: Invitation) =>
    client.invitations.delete(invitation.id, { organization }).then(async () => {
      await queryClient.invalidateQueries({ queryKey })
      showToast({ title: `The invitation of ${invitation.email} is withdrawn` })
    }, toastError('The invitation was not withdrawn'))
  return (
    <section className="card" aria-label="Invitations">
      <div className="card-header">
        <h2>Open invitations</h2>
      </div>
      <DataTable
        {...invitations}
        label="Invitations"
        rowKey={(invitation) => invitation.id}
        columns={[
          { label: 'Email', cell: (invitation) => <span className="cell-title break">{invitation.email}</span> },
          { label: 'Role', cell: (invitation) => roleNames[invitation.role] },
          { label: 'Ends', cell: (invitation) => <RelativeTime at={invitation.expires_at} /> },
          {
            label: 'Actions',
            quiet: true,
            className: 'cell-end cell-actions',
            cell: (invitation) => (
              <Button small onClick={() => withdraw(invitation)} aria-label={`Withdraw ${invitation.email}`}>
                Withdraw
              </Button>
            ),
          },
        ]}
        empty={null}
      />
    </section>
  )
}
