import { queryClient, sessionQuery } from './client.ts'
import { operatorClient } from './operator.ts'
import { openOrganization, type Session } from './session.ts'

/** What the operator's token for an organization may read. */
const reads = [
  'organizations:read',
  'members:read',
  'keys:read',
  'webhooks:read',
  'events:read',
  'deliveries:read',
  'databases:read',
  'backups:read',
  'invoices:read',
  'audit:read',
]

/** Opens an organization for the operator, read-only. Its audit log has an entry of it. */
export async function readOrganization({ id, name }: { id: string; name: string }): Promise<void> {
  const organization = { id, name, role: 'operator' as const, permissions: reads }
  await openOrganization(organization, () => operatorClient.organizations.open(id))
  queryClient.setQueryData<Session>(
    sessionQuery.queryKey,
    (before) => before && { ...before, organizations: [organization] },
  )
}
