import Type from 'typebox'
import type { Database } from '../../db/database.ts'
import type { Role } from '../../domain/roles.ts'
import { Fault, notFound } from '../../kernel/faults.ts'
import { newId } from '../../kernel/ids.ts'
import { recordAudit } from '../../store/audit.ts'
import type { HoldOrganization } from '../../store/hold-organization.ts'
import { countInvitations, deleteInvitation, insertInvitation, listInvitations } from '../../store/invitations.ts'
import { newSecret, secretHash } from '../console/sign-in.ts'
import { listById, onlyPageQuery } from '../lists.ts'
import { type Route, route } from '../route.ts'
import { createdInvitation, here, invitation, invitationOf, newInvitation } from './member-schemas.ts'
import { checkOwners } from './members.ts'

const path = '/platform/v1/organizations/:orgId/invitations'
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
      path,
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
        checkOwners({ access }, role)
        const secret = newSecret()
        return holdOrganization(orgId, (tx) =>
          once(tx, async () => {
            if ((await countInvitations(tx, orgId)) >= invitationsPerOrgMax) throw tooMany()
            const id = newId('ivt')
            const made = { id, email, role, created_by: userId, hash: secretHash(secret) }
            const record = invitationOf(await insertInvitation(tx, orgId, made))
            await recordAudit(tx, { orgId, action: 'member.invited', actor, targetId: id, details: { email, role } })
            const link = `${deps.publicUrl ?? ''}/console/invitation#${secret}`
            const location = `${path.replace(':orgId', orgId)}/${id}`
            return { status: 201, location, body: { ...record, link }, withoutSecrets: record }
          }),
        )
      },
    }),
    route({
      method: 'GET',
      path,
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
      path: `${path}/:invitationId`,
      needs: 'members:manage',
      audit: 'invitation.withdrawn',
      basis: here,
      tag: 'Members',
      summary: 'Withdraw an invitation',
      description: 'Its link stops working at once.',
      faults: ['not_found'],
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
