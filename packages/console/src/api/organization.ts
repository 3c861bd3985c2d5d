import { useSuspenseQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { sessionQuery } from './client.ts'
import type { Session, SessionOrganization } from './session.ts'

/** All: everything of the organization. Own: what the user created. */
type Reach = 'all' | 'own' | 'none'

export type CurrentOrganization = SessionOrganization & {
  /** Whether to offer an action. The server decides again when it is used. */
  can(permission: string): boolean
  reach(permission: string): Reach
}

export const useSession = (): Session => useSuspenseQuery(sessionQuery).data

const useOrgId = (): string => useParams({ strict: false }).orgId ?? ''

/** The organization of the address; null if the user is no member of it. */
export function useOrganization(): CurrentOrganization | null {
  const orgId = useOrgId()
  const found = useSession().organizations.find(({ id }) => id === orgId)
  return found === undefined ? null : withReach(found)
}

/** For pages below the organization route, which has checked it. */
export function useMember(): CurrentOrganization {
  const organization = useOrganization()
  if (organization === null) throw new Error('This user has no access to an organization with this id.')
  return organization
}

function withReach(organization: SessionOrganization): CurrentOrganization {
  const reach = (permission: string): Reach => {
    if (organization.permissions.includes(permission)) return 'all'
    return organization.permissions.includes(`${permission}:own`) ? 'own' : 'none'
  }
  return { ...organization, reach, can: (permission) => reach(permission) !== 'none' }
}
