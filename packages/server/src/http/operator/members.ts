import Type from 'typebox'
import type { Database } from '../../db/database.ts'
import type { Actor } from '../../domain/audit.ts'
import { type Role, roles } from '../../domain/roles.ts'
import { isId, type OrgId, type UserId } from '../../kernel/ids.ts'
import { listMembers, type UserRole } from '../../store/memberships.ts'
import { chosen } from '../basis.ts'
import { pageQuery } from '../lists.ts'
import { removalQuery } from '../platform/member-schemas.ts'
import { type Listing, operatorRoute, type Route } from '../route.ts'
import { id } from '../schemas.ts'

const here = chosen(95)
const path = '/operator/v1/members'

const role = () => Type.Enum([...roles], { description: 'What the user may do there.' })

const member = Type.Object(
  {
    organization_id: id('org', 'The organization.'),
    user_id: id('usr', 'The user.'),
    role: role(),
  },
  { $id: 'Member', additionalProperties: false, ...here },
)

const newMember = Type.Object({ role: role() }, { $id: 'NewMember', additionalProperties: false, ...here })

const memberQuery = Type.Object(
  {
    ...pageQuery,
    organization_id: Type.Optional(id('org', 'Only the members of this organization.')),
    user_id: Type.Optional(id('usr', 'Only the organizations of this user.')),
  },
  { additionalProperties: false },
)

const memberOf = ({ org_id, user_id, role }: UserRole) => ({ organization_id: org_id, user_id, role })

type Named = { orgId: OrgId; userId: UserId }

/** `keyhook member` over HTTP. */
export function operatorMemberRoutes(deps: {
  db: Database
  set(actor: Actor, member: Named & { role: Role }): Promise<unknown>
  remove(actor: Actor, member: Named & { revokesKeys: boolean }): Promise<unknown>
}): Route[] {
  return [
    operatorRoute({
      method: 'GET',
      path,
      needs: 'operator',
      audit: null,
      basis: here,
      tag: 'Operator',
      summary: 'List members',
      description: 'Who belongs to which organization, with which role.',
      query: memberQuery,
      success: { status: 200, description: 'The members.', schema: Type.Array(member) },
      async handler({ query }) {
        const filter = {
          orgId: (query.organization_id ?? null) as OrgId | null,
          userId: (query.user_id ?? null) as UserId | null,
        }
        const list: Listing<UserRole> = {
          page: ({ before, limit }) =>
            listMembers(deps.db, filter, { before: before === null ? null : placeOf(before), limit }),
          keyOf: ({ org_id, user_id }) => `${org_id}/${user_id}`,
          record: memberOf,
          isKey: (text) => isId('org', placeOf(text).orgId) && isId('usr', placeOf(text).userId),
        }
        return { status: 200, list }
      },
    }),
    operatorRoute({
      method: 'PUT',
      path: `${path}/:orgId/:userId`,
      needs: 'operator',
      audit: 'member.added',
      basis: here,
      tag: 'Operator',
      summary: 'Set a member',
      description:
        'Adds the user to the organization, or changes the role (`member.role_changed` in the audit log). It takes effect on every request that starts after the answer. The same role again changes nothing.',
      body: newMember,
      faults: ['not_found', 'user.unverified'],
      success: { status: 200, description: 'The member.', schema: member },
      async handler({ actor, params: { orgId, userId }, body }) {
        const { role } = body as { role: Role }
        await deps.set(actor, { orgId, userId, role })
        return { status: 200, body: { organization_id: orgId, user_id: userId, role } }
      },
    }),
    operatorRoute({
      method: 'DELETE',
      path: `${path}/:orgId/:userId`,
      needs: 'operator',
      audit: 'member.removed',
      basis: here,
      tag: 'Operator',
      summary: 'Remove a member',
      description:
        'Their keys in the organization stop at once. They work again if the user becomes a member again, unless `revoke_keys` ends them for good. A second call is answered like the first.',
      query: removalQuery,
      faults: ['not_found'],
      success: { status: 204, description: 'The user is no member.' },
      async handler({ actor, params: { orgId, userId }, query }) {
        await deps.remove(actor, { orgId, userId, revokesKeys: query.revoke_keys === 'true' })
        return { status: 204 }
      },
    }),
  ]
}

const placeOf = (key: string): { orgId: string; userId: string } => {
  const [orgId = '', userId = ''] = key.split('/')
  return { orgId, userId }
}
