import Type from 'typebox'
import { type Role, roles } from '../access/roles.ts'
import type { Database } from '../db/database.ts'
import { chosen } from '../http/basis.ts'
import { listById, onlyPageQuery, pageQuery } from '../http/lists.ts'
import { type Listing, operatorRoute, type Route } from '../http/route.ts'
import { closed, component, id, label } from '../http/schemas.ts'
import { notFound } from '../lib/faults.ts'
import { isId, type OrgId, type UserId } from '../lib/ids.ts'
import { removalQuery } from './member-schemas.ts'
import { organization, organizationOf } from './routes.ts'
import { createOrganization, ensureNoMember, setMember } from './rules.ts'
import { findOrganization, listMembers, pageOfOrganizations, type UserRole } from './sql.ts'

const here = chosen(95)
const organizationsPath = '/operator/v1/organizations'

const newOrganization = component('NewOrganization', here, {
  name: label('What people call the organization.', 'Globex'),
})

/** `keyhook org` over HTTP. */
export function operatorOrganizationRoutes({ db }: { db: Database }): Route[] {
  return [
    operatorRoute({
      method: 'POST',
      path: organizationsPath,
      audit: 'organization.created',
      basis: here,
      summary: 'Create an organization',
      description: 'A customer of yours. Send an `Idempotency-Key`: names need not be unique.',
      body: newOrganization,
      success: { status: 201, description: 'The organization.', schema: organization },
      async handler({ actor, body, once }) {
        return db.begin((tx) =>
          once(tx, async () => {
            const row = await createOrganization(tx, actor, { name: body.name })
            return { status: 201, location: `${organizationsPath}/${row.id}`, body: organizationOf(row) }
          }),
        )
      },
    }),
    operatorRoute({
      method: 'GET',
      path: organizationsPath,
      audit: null,
      basis: here,
      summary: 'List all organizations',
      description: 'Every organization of the installation.',
      query: onlyPageQuery,
      success: { status: 200, description: 'The organizations.', schema: Type.Array(organization) },
      async handler() {
        return listById('org', organizationOf, (request) => pageOfOrganizations(db, request))
      },
    }),
    operatorRoute({
      method: 'GET',
      path: `${organizationsPath}/:orgId`,
      audit: null,
      basis: here,
      summary: 'Read an organization',
      description: 'One organization.',
      success: { status: 200, description: 'The organization.', schema: organization },
      async handler({ params: { orgId } }) {
        const row = await findOrganization(db, orgId)
        if (row === null) throw notFound(`there is no organization ${orgId}`)
        return { status: 200, body: organizationOf(row) }
      },
    }),
  ]
}

const membersPath = '/operator/v1/members'

const role = () => Type.Enum([...roles], { description: 'What the user may do there.' })

const member = component('Member', here, {
  organization_id: id('org', 'The organization.'),
  user_id: id('usr', 'The user.'),
  role: role(),
})

const newMember = component('NewMember', here, { role: role() })

const memberQuery = closed({
  ...pageQuery,
  organization_id: Type.Optional(id('org', 'Only the members of this organization.')),
  user_id: Type.Optional(id('usr', 'Only the organizations of this user.')),
})

const memberOf = ({ org_id, user_id, role }: UserRole) => ({ organization_id: org_id, user_id, role })

/** `keyhook member` over HTTP. */
export function operatorMemberRoutes({ db }: { db: Database }): Route[] {
  return [
    operatorRoute({
      method: 'GET',
      path: membersPath,
      audit: null,
      basis: here,
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
            listMembers(db, filter, { before: before === null ? null : placeOf(before), limit }),
          keyOf: ({ org_id, user_id }) => `${org_id}/${user_id}`,
          record: memberOf,
          isKey: (text) => isId('org', placeOf(text).orgId) && isId('usr', placeOf(text).userId),
        }
        return { status: 200, list }
      },
    }),
    operatorRoute({
      method: 'PUT',
      path: `${membersPath}/:orgId/:userId`,
      audit: 'member.added',
      basis: here,
      summary: 'Set a member',
      description:
        'Adds the user to the organization, or changes the role (`member.role_changed` in the audit log). It takes effect on every request that starts after the answer. The same role again changes nothing.',
      body: newMember,
      faults: ['user.unverified'],
      success: { status: 200, description: 'The member.', schema: member },
      async handler({ actor, params: { orgId, userId }, body }) {
        const { role } = body as { role: Role }
        await setMember(db, actor, { orgId, userId, role })
        return { status: 200, body: { organization_id: orgId, user_id: userId, role } }
      },
    }),
    operatorRoute({
      method: 'DELETE',
      path: `${membersPath}/:orgId/:userId`,
      audit: 'member.removed',
      basis: here,
      summary: 'Remove a member',
      description:
        'Their keys in the organization stop at once. They work again if the user becomes a member again, unless `revoke_keys` ends them for good. A second call is answered like the first.',
      query: removalQuery,
      success: { status: 204, description: 'The user is no member.' },
      async handler({ actor, params: { orgId, userId }, query }) {
        await ensureNoMember(db, actor, { orgId, userId, revokesKeys: query.revoke_keys === 'true' })
        return { status: 204 }
      },
    }),
  ]
}

const placeOf = (key: string): { orgId: string; userId: string } => {
  const [orgId = '', userId = ''] = key.split('/')
  return { orgId, userId }
}
