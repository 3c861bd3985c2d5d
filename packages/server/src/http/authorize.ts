import { type Permission, type Reach, reachOf } from '../domain/roles.ts'
import { notFound } from '../kernel/faults.ts'
import type { OrgId } from '../kernel/ids.ts'
import type { Access } from '../store/access.ts'
import { permissionMissing } from './problems.ts'

/** May this caller do this in that organization? Says how far, or throws what the caller is to be told. */
export function authorize(access: Access, orgId: OrgId, permission: Permission): Exclude<Reach, 'none'> {
  const { membership } = access
  // Not a member, no such organization, a key of another organization: all the same from outside.
  if (membership === null || membership.organization.id !== orgId) {
    throw notFound(`${access.userId} has no access to ${orgId} with this credential`)
  }
  const reach = reachOf(membership.role, permission)
  if (reach === 'none') throw permissionMissing(permission, membership.role)
  return reach
}
