import type { Database, Executor, Transaction } from '../db/database.ts'
import type { Role } from '../domain/roles.ts'
import type { InvitationId, OrgId, UserId } from '../kernel/ids.ts'
import type { PageRequest } from './page.ts'

const invitationDays = 7

export type InvitationRow = {
  id: InvitationId
  email: string
  role: Role
  created_by: UserId
  created_at: Date
  expires_at: Date
}

/** Expired ones of the organization are deleted first, and do not count. */
export const countInvitations = async (tx: Transaction, orgId: OrgId): Promise<number> => {
  await tx`delete from keyhook.invitations where org_id = ${orgId} and expires_at < now()`
  const [row] = await tx<{ count: number }[]>`
    select count(*)::int as count from keyhook.invitations where org_id = ${orgId}`
  return row!.count
}

export const insertInvitation = async (
  tx: Transaction,
  orgId: OrgId,
  invitation: Pick<InvitationRow, 'id' | 'email' | 'role' | 'created_by'> & { hash: Buffer },
): Promise<InvitationRow> => {
  const [row] = await tx<InvitationRow[]>`
    insert into keyhook.invitations (org_id, id, email, role, secret_hash, created_by, expires_at)
    values (${orgId}, ${invitation.id}, ${invitation.email}, ${invitation.role}, ${invitation.hash},
      ${invitation.created_by}, now() + make_interval(days => ${invitationDays}))
    returning id, email, role, created_by, created_at, expires_at`
  return row!
}

export const listInvitations = (db: Database, orgId: OrgId, { before, limit }: PageRequest) => db<InvitationRow[]>`
  select id, email, role, created_by, created_at, expires_at from keyhook.invitations
  where org_id = ${orgId} and expires_at > now() and (${before}::text is null or id < ${before})
  order by id desc limit ${limit}`

export const deleteInvitation = async (
  tx: Transaction,
  orgId: OrgId,
  id: InvitationId,
): Promise<Pick<InvitationRow, 'email' | 'role'> | null> => {
  const [row] = await tx<InvitationRow[]>`
    delete from keyhook.invitations where org_id = ${orgId} and id = ${id} returning email, role`
  return row ?? null
}

export type FoundInvitation = InvitationRow & { org_id: OrgId; organization: string }

/** The invitation of a link; null if it was accepted, withdrawn or is too old. Names its organization: the link is the key. */
export const findInvitation = async (db: Executor, hash: Buffer): Promise<FoundInvitation | null> => {
  const [row] = await db<FoundInvitation[]>`
    select i.org_id, o.name as organization, i.id, i.email, i.role, i.created_by, i.created_at, i.expires_at
    from keyhook.invitations i join keyhook.organizations o on o.id = i.org_id
    where i.secret_hash = ${hash} and i.expires_at > now()`
  return row ?? null
}
