import Type from 'typebox'
import { type Role, roles } from '../access/roles.ts'
import { choice, chosen, mark, withChoices } from '../http/basis.ts'
import { closed, component, createdAt, id, nullable, timestamp, verified } from '../http/schemas.ts'
import { isoTime } from '../lib/time.ts'
import type { InvitationRow, MemberRow } from './sql.ts'

export const here = chosen(106)

const role = () => Type.Enum([...roles], { description: 'What the user may do in the organization.' })

export const member = component('OrganizationMember', here, {
  user_id: id('usr', 'The user.'),
  email: Type.String({ description: 'The e-mail address of the user.', examples: ['grace@example.com'] }),
  name: nullable(Type.String({ description: 'The name of the user.', examples: ['Grace'] })),
  verified: mark(chosen(163), verified()),
  role: role(),
  created_at: timestamp('Since when the user belongs to the organization.'),
})

export const memberOf = ({ user_id, email, name, verified, role, created_at }: MemberRow) => ({
  user_id,
  email,
  name,
  verified,
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

export const newRole = component('NewRole', here, { role: role() })

export const newInvitation = component('NewInvitation', here, {
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

export const invitation = component('Invitation', here, invitationFields)

export const createdInvitation = component('CreatedInvitation', here, {
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

export const invitationOf = ({ id, email, role, created_by, created_at, expires_at }: InvitationRow) => ({
  id,
  email,
  role: role satisfies Role,
  created_by,
  created_at: isoTime(created_at),
  expires_at: isoTime(expires_at),
})
