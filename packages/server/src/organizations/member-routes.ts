import Type from 'typebox'
import { recordAudit } from '../access/audit.ts'
import { type Role, roles } from '../access/roles.ts'
import type { Database, HoldOrganization, Transaction } from '../db/database.ts'
import { choice, chosen, mark, withChoices } from '../http/basis.ts'
import { listById, onlyPageQuery } from '../http/lists.ts'
import { type Call, type Listing, type Route, route } from '../http/route.ts'
import { closed, component, createdAt, id, isService, nullable, timestamp, verified } from '../http/schemas.ts'
import { Fault, notFound } from '../lib/faults.ts'
import { isId, newId, type OrgId, type UserId } from '../lib/ids.ts'
import { newSecret, secretHash } from '../lib/secrets.ts'
import { isoTime } from '../lib/time.ts'
import { checkMemberQuota, endMembership, neverOwner } from './rules.ts'
import {
  countInvitations,
  countOtherOwners,
  deleteInvitation,
  type InvitationRow,
  insertInvitation,
  listInvitations,
  listMembersOf,
  type MemberRow,
  setMembership,
} from './sql.ts'
import { serviceMember } from './users.ts'

const here = chosen(106)

const role = () => Type.Enum([...roles], { description: 'What the user may do in the organization.' })

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

const newInvitation = component('NewInvitation', here, {
  email: Type.String({
    maxLength: 255,
    pattern: '^[^\\s@\\x00-\\x1f\\x7f]+@[^\\s@\\x00-\\x1f\\x7f]+$',
    description: 'Whom you invite. Nothing is sent there: pass on the link yourself.',
    examples: ['grace@example.com'],
  }),
  role: role(),
})

const invitationFields = {
  id: id('ivt', 'The invitation.'),
  email: Type.String({ description: 'Who is invited.', examples: ['grace@example.com'] }),
  role: role(),
  created_by: id('usr', 'Who invites.'),
  created_at: createdAt(),
  expires_at: timestamp('Until then the link works.'),
}

const invitation = component('Invitation', here, invitationFields)

const createdInvitation = component('CreatedInvitation', here, {
  ...invitationFields,
  link: Type.Optional(
    withChoices(
      Type.String({
        description: 'The link to accept it, once. Shown only here.',
        examples: ['https://keyhook.example.com/console/invitation#ZXhhbXBsZS1zZWNyZXQtZXhhbXBsZS1zZWNyZXQtMDE'],
      }),
      choice(96, 'Absent if the answer is a repetition (`Idempotency-Replayed`).'),
    ),
  ),
})

const invitationOf = ({ id, email, role, created_by, created_at, expires_at }: InvitationRow) => ({
  id,
  email,
  role: role satisfies Role,
  created_by,
  created_at: isoTime(created_at),
  expires_at: isoTime(expires_at),
})

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
function checkOwners(access: Call['access'], ...involved: Role[]): void {
  if (access.membership?.role === 'owner' || !involved.includes('owner')) return
  throw new Fault('auth.permission_missing', { public: 'Only an owner of the organization may do this.' })
}

async function checkOwnerLeft(tx: Transaction, orgId: OrgId, { user_id, role }: MemberRow): Promise<void> {
  if (role !== 'owner' || (await countOtherOwners(tx, orgId, user_id)) > 0) return
  throw new Fault('member.last_owner', {
    public: 'The organization would have no owner. Make somebody else an owner first.',
  })
}

const invitationsPath = '/platform/v1/organizations/:orgId/invitations'
const invitationsPerOrgMax = 1_000

export function invitationRoutes(deps: {
  db: Database
  holdOrganization: HoldOrganization
  /** Where people reach this server; null: the link is relative to it. */
  publicUrl: string | null
}): Route[] {
  const { db, holdOrganization } = deps
  return [
    route({
      method: 'POST',
      path: invitationsPath,
      needs: 'members:manage',
      audit: 'member.invited',
      basis: here,
      tag: 'Members',
      summary: 'Invite a member',
      description:
        'Makes a link by which one person joins the organization within 7 days: the user who is signed in to the console, or a new user with this address. Only an owner invites owners.',
      body: newInvitation,
      faults: ['limit.reached'],
      success: { status: 201, description: 'The invitation, with its link.', schema: createdInvitation },
      async handler({ orgId, userId, actor, access, body, once }) {
        const { email, role } = body as { email: string; role: Role }
        checkOwners(access, role)
        const secret = newSecret()
        return holdOrganization(orgId, (tx) =>
          once(tx, async () => {
            if ((await countInvitations(tx, orgId)) >= invitationsPerOrgMax) throw tooMany()
            const id = newId('ivt')
            const made = { id, email, role, created_by: userId, hash: secretHash(secret) }
            const record = invitationOf(await insertInvitation(tx, orgId, made))
            await checkMemberQuota(tx, orgId)
            await recordAudit(tx, { orgId, action: 'member.invited', actor, targetId: id, details: { email, role } })
            const link = `${deps.publicUrl ?? ''}/console/invitation#${secret}`
            const location = `${invitationsPath.replace(':orgId', orgId)}/${id}`
            return { status: 201, location, body: { ...record, link }, withoutSecrets: record }
          }),
        )
      },
    }),
    route({
      method: 'GET',
      path: invitationsPath,
      needs: 'members:manage',
      audit: null,
      basis: here,
      tag: 'Members',
      summary: 'List invitations',
      description: 'Those that nobody has accepted yet.',
      query: onlyPageQuery,
      success: { status: 200, description: 'The invitations.', schema: Type.Array(invitation) },
      async handler({ orgId }) {
        return listById('ivt', invitationOf, (request) => listInvitations(db, orgId, request))
      },
    }),
    route({
      method: 'DELETE',
      path: `${invitationsPath}/:invitationId`,
      needs: 'members:manage',
      audit: 'invitation.withdrawn',
      basis: here,
      tag: 'Members',
      summary: 'Withdraw an invitation',
      description: 'Its link stops working at once.',
      success: { status: 204, description: 'It is withdrawn.' },
      async handler({ orgId, params: { invitationId: id }, actor }) {
        await db.begin(async (tx) => {
          const gone = await deleteInvitation(tx, orgId, id)
          if (gone === null) throw notFound(`${id} is not in ${orgId}`)
          await recordAudit(tx, { orgId, action: 'invitation.withdrawn', actor, targetId: id, details: gone })
        })
        return { status: 204 }
      },
    }),
  ]
}

const tooMany = (): Fault =>
  new Fault('limit.reached', { public: `An organization has at most ${invitationsPerOrgMax} open invitations.` })
