import Type from 'typebox'
import { type Role, roles } from '../access/roles.ts'
import type { Database, Transact } from '../db/database.ts'
import { chosen, mark } from '../http/basis.ts'
import { listById, onlyPageQuery, pageQuery } from '../http/lists.ts'
import { type Listing, operatorRoute, type Route } from '../http/route.ts'
import { closed, component, createdAt, id, isService, label, verified } from '../http/schemas.ts'
import { notFound } from '../lib/faults.ts'
import { isId, type OrgId, type UserId } from '../lib/ids.ts'
import { isoTime } from '../lib/time.ts'
import { removalQuery } from './member-routes.ts'
import { organization, organizationOf } from './routes.ts'
import { createOrganization, createUser, ensureNoMember, ensureNoUser, setMember, verifyUser } from './rules.ts'
import { findOrganization, listMembers, pageOfOrganizations, type UserRole } from './sql.ts'
import { findUser, pageOfUsers, type UserRow } from './users.ts'

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
export function operatorMemberRoutes({ db, transact }: { db: Database; transact: Transact }): Route[] {
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
      faults: ['user.unverified', 'user.service_member', 'limit.reached'],
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
        'Their keys in the organization stop at once. They work again if the user becomes a member again, unless `revoke_keys` ends them for good. A service member and its keys always end for good. A second call is answered like the first.',
      query: removalQuery,
      success: { status: 204, description: 'The user is no member.' },
      async handler({ actor, params: { orgId, userId }, query }) {
        await ensureNoMember(transact, actor, { orgId, userId, revokesKeys: query.revoke_keys === 'true' })
        return { status: 204 }
      },
    }),
  ]
}

const placeOf = (key: string): { orgId: string; userId: string } => {
  const [orgId = '', userId = ''] = key.split('/')
  return { orgId, userId }
}

const verification = chosen(163)
const path = '/operator/v1/users'

const subject = () => label('The `sub` of this person at your OpenID issuer.', 'auth0|64f1c2a9')

const newUser = component('NewUser', here, {
  email: { ...label('E-mail address. No two users have the same.', 'hank@example.com'), format: 'email-address' },
  name: Type.Optional(label('Full name.', 'Hank')),
  subject: Type.Optional(subject()),
})

const user = component('User', here, {
  id: id('usr', 'The user.'),
  email: Type.Union([Type.String(), Type.Null()], {
    description: 'E-mail address; null for a service member.',
    examples: ['hank@example.com'],
  }),
  name: Type.Union([Type.String(), Type.Null()], { description: 'Full name, if it was given.' }),
  subject: Type.Union([Type.String(), Type.Null()], {
    description: 'The `sub` that logs in as this user, if one does.',
  }),
  verified: mark(verification, verified()),
  service: mark(chosen(175), isService()),
  created_at: createdAt(),
})

const userQuery = closed({
  ...pageQuery,
  email: Type.Optional(
    Type.String({ maxLength: 255, description: 'Only users with this address, in any case of A to Z.' }),
  ),
})

const userOf = ({ id, email, name, subject, verified_by, is_service: service, created_at }: UserRow) => ({
  id,
  email,
  name,
  subject,
  verified: verified_by !== null,
  service,
  created_at: isoTime(created_at),
})

/** `keyhook user` over HTTP. */
export function operatorUserRoutes({ db, transact }: { db: Database; transact: Transact }): Route[] {
  return [
    operatorRoute({
      method: 'POST',
      path,
      audit: null,
      basis: here,
      summary: 'Create a user',
      description: 'A person, who belongs to no organization yet.',
      body: newUser,
      faults: ['user.email_taken', 'user.subject_taken'],
      success: { status: 201, description: 'The user.', schema: user },
      async handler({ body, once }) {
        const request = { email: body.email, name: body.name ?? null, subject: body.subject ?? null }
        return db.begin((tx) =>
          once(tx, async () => {
            const row = await createUser(tx, request)
            return { status: 201, location: `${path}/${row.id}`, body: userOf(row) }
          }),
        )
      },
    }),
    operatorRoute({
      method: 'GET',
      path,
      audit: null,
      basis: here,
      summary: 'List users',
      description:
        'Every user of the installation, or those with an address: one verified user at most, and one unverified user in each organization that invited it.',
      query: userQuery,
      success: { status: 200, description: 'The users.', schema: Type.Array(user) },
      async handler({ query }) {
        return listById('usr', userOf, (request) => pageOfUsers(db, query.email ?? null, request))
      },
    }),
    operatorRoute({
      method: 'GET',
      path: `${path}/:userId`,
      audit: null,
      basis: here,
      summary: 'Read a user',
      description: 'One user who has not been removed.',
      success: { status: 200, description: 'The user.', schema: user },
      async handler({ params: { userId } }) {
        const row = await findUser(db, userId)
        if (row === null) throw notFound(`there is no user ${userId}`)
        return { status: 200, body: userOf(row) }
      },
    }),
    operatorRoute({
      method: 'POST',
      path: `${path}/:userId/verify`,
      audit: 'user.verified',
      basis: verification,
      summary: 'Confirm the address of a user',
      description:
        'For a user who joined with an invitation link, once you know that the address is theirs. The user may then belong to other organizations too. A second call is answered like the first.',
      faults: ['user.email_taken', 'user.service_member'],
      success: { status: 200, description: 'The user.', schema: user },
      async handler({ actor, params: { userId } }) {
        return { status: 200, body: userOf(await verifyUser(db, actor, { userId })) }
      },
    }),
    operatorRoute({
      method: 'DELETE',
      path: `${path}/:userId`,
      audit: 'user.removed',
      basis: here,
      summary: 'Remove a user',
      description:
        'Removes the user from every organization. Their keys and login tokens stop at once, the keys of a service member for good; their webhooks and databases stay. A second call is answered like the first.',
      success: { status: 204, description: 'There is no such user any more.' },
      async handler({ actor, params: { userId } }) {
        await ensureNoUser(transact, actor, { userId })
        return { status: 204 }
      },
    }),
  ]
}
