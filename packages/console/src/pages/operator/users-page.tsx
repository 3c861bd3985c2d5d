import type { User } from '@keyhook/client/operator'
import { Users } from 'lucide-react'
import { useState } from 'react'
import { queryClient } from '../../api/client.ts'
import { useList } from '../../api/lists.ts'
import { operatorClient } from '../../api/operator.ts'
import { Button } from '../../components/button.tsx'
import { Confirm } from '../../components/confirm.tsx'
import { IdChip } from '../../components/copy.tsx'
import { type Column, DataTable } from '../../components/data-table.tsx'
import { PageHeader } from '../../components/page.tsx'
import { EmptyState } from '../../components/states.tsx'
import { RelativeTime } from '../../components/time.tsx'
import { showToast } from '../../components/toasts.tsx'
import { UserBadge } from '../../components/user-badge.tsx'

const queryKey = ['operator', 'users']

type Act = (user: User) => void

const columns = (onVerify: Act, onDelete: Act): Column<User>[] => [
  {
    label: 'User',
    cell: (user) => (
      <div>
        <span className="cell-title break">{user.name ?? user.email}</span> <UserBadge of={user} />
        {user.name !== null && user.email !== null && <div className="small muted break">{user.email}</div>}
      </div>
    ),
  },
  { label: 'Id', cell: (user) => <IdChip id={user.id} /> },
  {
    label: 'Single sign-on',
    cell: (user) =>
      user.subject === null ? (
        <span className="muted">Not used</span>
      ) : (
        <span className="mono break" title="The subject at the OpenID issuer">
          {user.subject}
        </span>
      ),
  },
  { label: 'Created', cell: (user) => <RelativeTime at={user.created_at} /> },
  {
    label: 'Actions',
    quiet: true,
    className: 'cell-end cell-actions',
    cell: (user) => (
      <>
        {!user.verified && !user.service && (
          <Button small onClick={() => onVerify(user)} aria-label={`Confirm ${user.email}`}>
            Confirm address
          </Button>
        )}{' '}
        <Button small onClick={() => onDelete(user)} aria-label={`Delete ${confirmationOf(user)}`}>
          Delete
        </Button>
      </>
    ),
  },
]

/** What the server wants to hear. */
const confirmationOf = ({ service, name, email }: User): string => (service ? name : email) ?? ''

export function UsersPage() {
  const [deleting, setDeleting] = useState<User | null>(null)
  const [verifying, setVerifying] = useState<User | null>(null)
  const users = useList(queryKey, (options) => operatorClient.users.list(options))
  return (
    <>
      <PageHeader
        title="Users"
        description="Everybody who can sign in, in any organization, and service members, which only API keys act as."
      />
      <section className="card" aria-label="Users">
        <DataTable
          {...users}
          label="Users"
          columns={columns(setVerifying, setDeleting)}
          rowKey={({ id }) => id}
          empty={
            <EmptyState icon={Users} title="No users yet">
              Create a user with “keyhook user create”, or invite somebody from an organization.
            </EmptyState>
          }
        />
      </section>
      {deleting && (
        <Confirm
          title={`Delete ${confirmationOf(deleting)}?`}
          description="The user leaves every organization, and the keys and sessions of the user stop at once. Address, name and single sign-on are erased for good; audit logs keep the id."
          action="Delete user"
          typed={confirmationOf(deleting)}
          onConfirm={async () => {
            await operatorClient.users.erase(deleting.id, { confirm: confirmationOf(deleting) })
            await queryClient.invalidateQueries({ queryKey })
            showToast({ title: 'The user is deleted' })
          }}
          onClose={() => setDeleting(null)}
        />
      )}
      {verifying && (
        <Confirm
          title={`Confirm ${verifying.email}?`}
          description="Do this only if you know that the person who uses this account owns the address. They can then join other organizations too."
          action="Confirm address"
          danger={false}
          onConfirm={async () => {
            await operatorClient.users.verify(verifying.id)
            await queryClient.invalidateQueries({ queryKey })
            showToast({ title: `${verifying.email} is confirmed` })
          }}
          onClose={() => setVerifying(null)}
        />
      )}
    </>
  )
}
