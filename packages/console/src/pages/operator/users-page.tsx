import type { User } from '@keyhook/client/operator'
import { Users } from 'lucide-react'
import { useList } from '../../api/lists.ts'
import { operatorClient } from '../../api/operator.ts'
import { IdChip } from '../../components/copy.tsx'
import { type Column, DataTable } from '../../components/data-table.tsx'
import { PageHeader } from '../../components/page.tsx'
import { EmptyState } from '../../components/states.tsx'
import { RelativeTime } from '../../components/time.tsx'

const columns: Column<User>[] = [
  {
    label: 'User',
    cell: (user) => (
      <div>
        <span className="cell-title break">{user.name ?? user.email}</span>
        {user.name !== null && <div className="small muted break">{user.email}</div>}
      </div>
    ),
  },
  { label: 'Id', cell: (user) => <IdChip id={user.id} /> },
  { label: 'Subject', cell: (user) => <span className="mono break">{user.subject ?? '–'}</span> },
  { label: 'Created', cell: (user) => <RelativeTime at={user.created_at} /> },
]

export function UsersPage() {
  const users = useList(['operator', 'users'], (options) => operatorClient.users.list(options))
  return (
    <>
      <PageHeader title="Users" description="Everybody who can sign in, in any organization." />
      <section className="card" aria-label="Users">
        <DataTable
          {...users}
          label="Users"
          columns={columns}
          rowKey={({ id }) => id}
          empty={
            <EmptyState icon={Users} title="No users yet">
              Create one with “keyhook user create”, or invite somebody from an organization.
            </EmptyState>
          }
        />
      </section>
    </>
  )
}
