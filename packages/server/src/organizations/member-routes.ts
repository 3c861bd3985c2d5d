import Type from 'typebox'
import { recordAudit } from '../access/audit.ts'
import { type Role, roles } from '../access/roles.ts'
import type { Database, HoldOrganization, Transaction } from '../db/database.ts'
import { chosen, mark } from '../http/basis.ts'
import { onlyPageQuery } from '../http/lists.ts'
import { type Call, type Listing, type Route, route } from '../http/route.ts'
import { closed, component, id, isService, nullable, timestamp, verified } from '../http/schemas.ts'
import { Fault, notFound } from '../lib/faults.ts'
import { isId, type OrgId, type UserId } from '../lib/ids.ts'
import { isoTime } from '../lib/time.ts'
import { endMembership, neverOwner } from './rules.ts'
import { countOtherOwners, listMembersOf, type MemberRow, setMembership } from './sql.ts'
import { serviceMember } from './users.ts'

const here = chosen(106)

export const role = () => Type.Enum([...roles], { description: 'What the user may do in the organization.' })

export const member = component('OrganizationMember', here, {
  user_id: id('usr', 'The user.'),
  email: nullable(
    Type.String({ description: 'The e-mail address; null for a service member.', examples: ['grace@example.com'] }),
  ),
  name: nullable(Type.String({ description: 'The name of the user.', examples: ['Grace'] })),
  verified: mark(chosen(163), verified()),
  service: mark(chosen(175), isService()),
  role: role(),
  created_at: timestamp('Since when the user belongs to the organization.'),
})

export const memberOf = ({ user_id, email, name, verified, service, role, created_at }: MemberRow) => ({
  user_id,
  email,
  name,
  verified,
  service,
  role,
  created_at: isoTime(created_at),
})

/** Of both removals: that of a member and that of an operator. */
export const removalQuery = closed({
  revoke_keys: Type.Optional(
    mark(
      chosen(164),
      Type.Enum(['true', 'false'], {
        description: 'Also revoke every API key that acts as the user in the organization. `false` when absent.',
      }),
    ),
  ),
})

const newRole = component('NewRole', here, { role: role() })

const membersPath = '/platform/v1/organizations/:orgId/members'

/** Who belongs to an organization. */
export function memberRoutes({ db, holdOrganization }: { db: Database; holdOrganization: HoldOrganization }): Route[] {
  return [
    route({
      method: 'GET',
      path: membersPath,
      needs: 'members:read',
      audit: null,
      basis: here,
      tag: 'Members',
      summary: 'List the members',
      description: 'The users of the organization with their roles.',
      query: onlyPageQuery,
      success: { status: 200, description: 'The members.', schema: Type.Array(member) },
      async handler({ orgId }) {
        const list: Listing<MemberRow> = {
          page: (request) => listMembersOf(db, orgId, request),
          keyOf: ({ user_id }) => user_id,
          record: memberOf,
          isKey: (text) => isId('usr', text),
        }
        return { status: 200, list }
      },
    }),
    route({
      method: 'PUT',
      path: `${membersPath}/:userId`,
      needs: 'members:manage',
      audit: 'member.role_changed',
      basis: here,
      tag: 'Members',
      summary: 'Change the role of a member',
      description:
        'It takes effect on every request that starts after the answer. The same role again changes nothing. Only an owner makes owners, or changes the role of one. A service member is never an owner.',
      body: newRole,
      faults: ['member.last_owner', 'user.service_member'],
      success: { status: 200, description: 'The member.', schema: member },
      async handler({ orgId, params: { userId }, actor, access, body }) {
        const { role } = body as { role: Role }
        return holdOrganization(orgId, async (tx) => {
          const before = await findMember(tx, orgId, userId)
          checkOwners(access, before.role, role)
          if (before.service && role === 'owner') throw serviceMember(neverOwner)
          if (before.role !== role) {
            await checkOwnerLeft(tx, orgId, before)
            await setMembership(tx, orgId, userId, role)
            const details = { from: before.role, to: role }
            await recordAudit(tx, { orgId, action: 'member.role_changed', actor, targetId: userId, details })
          }
          return { status: 200, body: memberOf({ ...before, role }) }
        })
      },
    }),
    route({
      method: 'DELETE',
      path: `${membersPath}/:userId`,
      needs: 'members:manage',
      audit: 'member.removed',
      basis: here,
      tag: 'Members',
      summary: 'Remove a member from the organization',
      description:
        'Keys of the user stop working at once. They work again if the user becomes a member again, unless `revoke_keys` ends them for good. A service member and its keys always end for good. Only an owner removes an owner.',
      query: removalQuery,
      faults: ['member.last_owner'],
      success: { status: 204, description: 'The user is no member any more.' },
      async handler({ orgId, params: { userId }, actor, access, query }) {
        await holdOrganization(orgId, async (tx) => {
          const before = await findMember(tx, orgId, userId)
          checkOwners(access, before.role)
          await checkOwnerLeft(tx, orgId, before)
          await endMembership(tx, actor, { orgId, userId, revokesKeys: query.revoke_keys === 'true' })
        })
        return { status: 204 }
      },
    }),
  ]
}

export async function findMember(tx: Transaction, orgId: OrgId, userId: UserId): Promise<MemberRow> {
  const [row] = await listMembersOf(tx, orgId, { before: null, limit: 1, userId })
  if (row === undefined) throw notFound(`${userId} is not a member of ${orgId}`)
  return row
}

/** An admin who could make owners would be one. */
export function checkOwners(access: Call['access'], ...involved: Role[]): void {
  if (access.membership?.role === 'owner' || !involved.includes('owner')) return
  throw new Fault('auth.permission_missing', { public: 'Only an owner of the organization may do this.' })
}

async function checkOwnerLeft(tx: Transaction, orgId: OrgId, { user_id, role }: MemberRow): Promise<void> {
  if (role !== 'owner' || (await countOtherOwners(tx, orgId, user_id)) > 0) return
  throw new Fault('member.last_owner', {
    public: 'The organization would have no owner. Make somebody else an owner first.',
  })
}
