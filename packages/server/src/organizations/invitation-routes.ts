import { randomBytes } from 'node:crypto'
import Type from 'typebox'
import { recordAudit } from '../access/audit.ts'
import type { Role } from '../access/roles.ts'
import type { Database, HoldOrganization, Transaction } from '../db/database.ts'
import { choice, chosen, mark, withChoices } from '../http/basis.ts'
import { listById, onlyPageQuery } from '../http/lists.ts'
import { type Route, route } from '../http/route.ts'
import { component, createdAt, id, timestamp } from '../http/schemas.ts'
import { Fault, invalid, notFound } from '../lib/faults.ts'
import { type InvitationId, newId, type OrgId } from '../lib/ids.ts'
import { isMailAddress } from '../lib/mail-server.ts'
import { newSecret, secretHash } from '../lib/secrets.ts'
import { isoTime } from '../lib/time.ts'
import { mailOff, requireMailLeft } from '../mail/limits.ts'
import { isMailOn, queueMail } from '../mail/queue-sql.ts'
import { checkOwners, role } from './member-routes.ts'
import { checkMemberQuota } from './rules.ts'
import { countInvitations, deleteInvitation, type InvitationRow, insertInvitation, listInvitations } from './sql.ts'

const here = chosen(106)
const mailed = chosen(181)

const newInvitation = component('NewInvitation', here, {
  email: Type.String({
    maxLength: 255,
    pattern: '^[^\\s@\\x00-\\x1f\\x7f]+@[^\\s@\\x00-\\x1f\\x7f]+$',
    description: 'Whom you invite. Without `mail` nothing is sent there: pass on the link yourself.',
    examples: ['grace@example.com'],
  }),
  role: role(),
  mail: Type.Optional(
    mark(
      mailed,
      Type.Boolean({
        description:
          'Send the link to the address, and to nobody else: the answer has none. Whoever accepts it has confirmed the address. `false` when absent.',
      }),
    ),
  ),
})

const invitationFields = {
  id: id('ivt', 'The invitation.'),
  email: Type.String({ description: 'Who is invited.', examples: ['grace@example.com'] }),
  role: role(),
  created_by: id('usr', 'Who invites.'),
  created_at: createdAt(),
  expires_at: timestamp('Until then the link works.'),
  mailed: mark(mailed, Type.Boolean({ description: 'Whether the link was sent to the address.' })),
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
      choice(181, 'Absent with `mail`.'),
    ),
  ),
})

const invitationOf = ({ id, email, role, created_by, created_at, expires_at, mailed }: InvitationRow) => ({
  id,
  email,
  role: role satisfies Role,
  created_by,
  created_at: isoTime(created_at),
  expires_at: isoTime(expires_at),
  mailed,
})

const invitationsPath = '/platform/v1/organizations/:orgId/invitations'
const invitationsPerOrgMax = 1_000

/** An organization must not be a way to write to strangers. */
const mailedPerOrgMax = 100
const mailMinutes = 24 * 60

export function invitationRoutes(deps: {
  db: Database
  holdOrganization: HoldOrganization
  /** Where people reach this server; null: the link is relative to it. */
  publicUrl: string | null
  mailPerAddressMax: number
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
        'Makes a link by which one person joins the organization within 7 days: the user who is signed in to the console, or a new user with this address. With `mail` the link goes to the address. Only an owner invites owners.',
      body: newInvitation,
      faults: ['limit.reached', 'mail.off', 'mail.limit_reached'],
      success: { status: 201, description: 'The invitation, with its link.', schema: createdInvitation },
      async handler({ orgId, userId, actor, access, body, once }) {
        const { email, role, mail = false } = body as { email: string; role: Role; mail?: boolean }
        checkOwners(access, role)
        if (mail && !isMailAddress(email)) {
          throw invalid([
            { pointer: '/email', detail: 'must be one e-mail address without quotes, if the link is mailed' },
          ])
        }
        const secret = newSecret()
        return holdOrganization(orgId, (tx) =>
          once(tx, async () => {
            if ((await countInvitations(tx, orgId)) >= invitationsPerOrgMax) throw tooMany()
            const id = newId('ivt')
            // The sender makes the link of a mailed one: whoever invites never gets it.
            const hash = mail ? randomBytes(32) : secretHash(secret)
            if (mail) await mailInvitation(tx, { orgId, id, email }, deps.mailPerAddressMax)
            const made = { id, email, role, created_by: userId, mailed: mail, hash }
            const record = invitationOf(await insertInvitation(tx, orgId, made))
            await checkMemberQuota(tx, orgId)
            const details = { email, role, ...(mail && { sent: 'mail' }) }
            await recordAudit(tx, { orgId, action: 'member.invited', actor, targetId: id, details })
            const location = `${invitationsPath.replace(':orgId', orgId)}/${id}`
            if (mail) return { status: 201, location, body: record }
            const link = `${deps.publicUrl ?? ''}/console/invitation#${secret}`
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

async function mailInvitation(
  tx: Transaction,
  { orgId, id, email }: { orgId: OrgId; id: InvitationId; email: string },
  perAddressMax: number,
): Promise<void> {
  if (!(await isMailOn(tx))) throw mailOff()
  await requireMailLeft(tx, 'invitation_of', orgId, mailedPerOrgMax)
  await requireMailLeft(tx, 'invitation', email, perAddressMax)
  const data = { invitation: id }
  await queueMail(tx, { kind: 'invitation', orgId, userId: null, address: email, data, minutes: mailMinutes })
}

const tooMany = (): Fault =>
  new Fault('limit.reached', { public: `An organization has at most ${invitationsPerOrgMax} open invitations.` })
