import type { OrganizationMember } from '@keyhook/client'
import { useQuery } from '@tanstack/react-query'
import { client } from '../api/client.ts'
import { useMember, useSession } from '../api/organization.ts'
import { IdChip } from './copy.tsx'

/** All members, for their names; undefined until they are loaded. */
export function useMembers(): OrganizationMember[] | undefined {
  const organization = useMember()
  return useQuery({
    queryKey: [organization.id, 'members', 'names'],
    queryFn: ({ signal }) => client.members.list({ organization: organization.id, signal }).toArray(),
    staleTime: 60_000,
    enabled: organization.can('members:read'),
  }).data
}

/** An address that nobody has confirmed must not pass for the person who has it, and a service member for no person. */
export const nameOf = ({ name, email, verified, service }: OrganizationMember): string =>
  `${name ?? email}${service ? ' (service member)' : verified ? '' : ' (unverified)'}`

/** A user: "You", within a text "you", the name of a member, or the id of somebody who has left. */
export function PersonName({ id, inText = false }: { id: string; inText?: boolean }) {
  const { user } = useSession()
  const members = useMembers()
  if (id === user?.id) return <span title={id}>{inText ? 'you' : 'You'}</span>
  const member = members?.find(({ user_id }) => user_id === id)
  return member === undefined ? <IdChip id={id} short /> : <span title={id}>{nameOf(member)}</span>
}
