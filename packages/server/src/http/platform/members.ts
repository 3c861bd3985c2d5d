import Type from 'typebox'
import type { Database, Transaction } from '../../db/database.ts'
import type { Role } from '../../domain/roles.ts'
import { Fault, notFound } from '../../kernel/faults.ts'
import { isId, type OrgId, type UserId } from '../../kernel/ids.ts'
import { revokeKeysOf } from '../../store/api-keys.ts'
import { recordAudit } from '../../store/audit.ts'
import type { HoldOrganization } from '../../store/hold-organization.ts'
import {
  countOtherOwners,
  deleteMembership,
  listMembersOf,
  type MemberRow,
  setMembership,
} from '../../store/memberships.ts'
import { onlyPageQuery } from '../lists.ts'
import { type Call, type Listing, type Route, route } from '../route.ts'
import { here, member, memberOf, newRole, removalQuery } from './member-schemas.ts'

const path = '/platform/v1/organizations/:orgId/members'

/** Who belongs to an organization. */
export function memberRoutes({ db, holdOrganization }: { db: Database; holdOrganization: HoldOrganization }): Route[] {
  return [
    route({
      method: 'GET',
      path,
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
      path: `${path}/:userId`,
      needs: 'members:manage',
      audit: 'member.role_changed',
      basis: here,
      tag: 'Members',
      summary: 'Change the role of a member',
      description:
        'It takes effect on every request that starts after the answer. The same role again changes nothing. Only an owner makes owners, or changes the role of one.',
      body: newRole,
      faults: ['not_found', 'member.last_owner'],
      success: { status: 200, description: 'The member.', schema: member },
      async handler({ orgId, params: { userId }, body, ...caller }) {
        const { role } = body as { role: Role }
        return holdOrganization(orgId, async (tx) => {
          const before = await findMember(tx, orgId, userId)
          checkOwners(caller, before.role, role)
          if (before.role !== role) {
            await checkOwnerLeft(tx, orgId, before)
            await setMembership(tx, orgId, userId, role)
            const details = { from: before.role, to: role }
            await recordAudit(tx, {
              orgId,
              action: 'member.role_changed',
              actor: caller.actor,
              targetId: userId,
              details,
            })
          }
          return { status: 200, body: memberOf({ ...before, role }) }
        })
      },
    }),
    route({
      method: 'DELETE',
      path: `${path}/:userId`,
      needs: 'members:manage',
      audit: 'member.removed',
      basis: here,
      tag: 'Members',
      summary: 'Remove a member from the organization',
      description:
        'Keys of the user stop working at once. They work again if the user becomes a member again, unless `revoke_keys` ends them for good. Only an owner removes an owner.',
      query: removalQuery,
      faults: ['not_found', 'member.last_owner'],
      success: { status: 204, description: 'The user is no member any more.' },
      async handler({ orgId, params: { userId }, query, ...caller }) {
        await holdOrganization(orgId, async (tx) => {
          const before = await findMember(tx, orgId, userId)
          checkOwners(caller, before.role)
          await checkOwnerLeft(tx, orgId, before)
          await deleteMembership(tx, orgId, userId)
          const details = { role: before.role }
          await recordAudit(tx, { orgId, action: 'member.removed', actor: caller.actor, targetId: userId, details })
          if (query.revoke_keys === 'true') await revokeKeysOf(tx, orgId, userId, caller.actor)
        })
        return { status: 204 }
      },
    }),
  ]
}

async function findMember(tx: Transaction, orgId: OrgId, userId: UserId): Promise<MemberRow> {
  const [row] = await listMembersOf(tx, orgId, { before: null, limit: 1, userId })
  if (row === undefined) throw notFound(`${userId} is not a member of ${orgId}`)
  return row
}

/** An admin who could make owners would be one. */
export function checkOwners({ access }: Pick<Call, 'access'>, ...involved: Role[]): void {
  if (access.membership?.role === 'owner' || !involved.includes('owner')) return
  throw new Fault('auth.permission_missing', { public: 'Only an owner of the organization may do this.' })
}

async function checkOwnerLeft(tx: Transaction, orgId: OrgId, { user_id, role }: MemberRow): Promise<void> {
  if (role !== 'owner' || (await countOtherOwners(tx, orgId, user_id)) > 0) return
  throw new Fault('member.last_owner', {
    public: 'The organization would have no owner. Make somebody else an owner first.',
  })
}
