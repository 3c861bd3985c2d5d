import type { OrganizationRow } from '../access/access.ts'
import type { Role } from '../access/roles.ts'
import type { Database, Executor, PageRequest, Transaction } from '../db/database.ts'
import type { InvitationId, OrgId, UserId } from '../lib/ids.ts'

export const insertOrganization = (tx: Transaction, id: OrgId, name: string) =>
  tx<OrganizationRow[]>`
    insert into keyhook.organizations (id, name) values (${id}, ${name}) returning id, name, created_at`.one()

export const findOrganization = (db: Executor, id: OrgId) =>
  db<OrganizationRow[]>`
    select id, name, created_at from keyhook.organizations where id = ${id} and deleted_at is null`.first()

export const renameOrganization = async (tx: Transaction, id: OrgId, name: string): Promise<void> => {
  await tx`update keyhook.organizations set name = ${name} where id = ${id}`
}

export const pageOfOrganizations = (db: Database, { before, limit }: PageRequest) => db<OrganizationRow[]>`
  select id, name, created_at from keyhook.organizations
  where deleted_at is null and (${before}::text is null or id < ${before})
  order by id desc
  limit ${limit}`

export const countOrganizations = async (db: Executor): Promise<number> => {
  const { count } = await db<{ count: number }[]>`
    select count(*)::int as count from keyhook.organizations where deleted_at is null`.one()
  return count
}

/** Serializes writers that count before they insert; readers do not wait. False for an organization that is unknown or deleted. */
export const lockOrganization = async (tx: Transaction, id: OrgId): Promise<boolean> => {
  const rows = await tx`select 1 from keyhook.organizations where id = ${id} and deleted_at is null for no key update`
  return rows.length > 0
}

export const listOrganizations = (db: Database, after: string, limit: number) => db<OrganizationRow[]>`
  select id, name, created_at from keyhook.organizations
  where id > ${after} and deleted_at is null order by id limit ${limit}`

export const listOrganizationsOfUser = (db: Database, userId: UserId, { before, limit }: PageRequest) =>
  db<OrganizationRow[]>`
    select o.id, o.name, o.created_at
    from keyhook.memberships m
    join keyhook.organizations o on o.id = m.org_id
    where m.user_id = ${userId} and (${before}::text is null or m.org_id < ${before})
    order by m.org_id desc
    limit ${limit}`

/**
 * Adds the member or changes the role; returns the role before. Keys follow a change of role by their foreign key; those of a
 * former member get their role back here.
 */
export const setMembership = async (
  tx: Transaction,
  orgId: OrgId,
  userId: UserId,
  role: Role,
): Promise<Role | null> => {
  const [before] = await tx<{ role: Role }[]>`
    select role from keyhook.memberships where org_id = ${orgId} and user_id = ${userId} for update`
  await tx`
    insert into keyhook.memberships (org_id, user_id, role) values (${orgId}, ${userId}, ${role})
    on conflict (org_id, user_id) do update set role = excluded.role`
  if (before === undefined) {
    await tx`
      update keyhook.api_keys set role = ${role}
      where org_id = ${orgId} and created_by = ${userId} and role is null`
  }
  return before?.role ?? null
}

export const deleteMembership = (tx: Transaction, orgId: OrgId, userId: UserId) =>
  tx<{ role: Role; is_service: boolean }[]>`
    delete from keyhook.memberships m using keyhook.users u
    where m.org_id = ${orgId} and m.user_id = ${userId} and u.id = m.user_id
    returning m.role, u.is_service`.first()

export type UserRole = { user_id: UserId; org_id: OrgId; role: Role }

/** The newest organizations of each user, with the role there. */
export const rolesOfUsers = (db: Database, userIds: readonly UserId[], max: number) => db<UserRole[]>`
  select u.id as user_id, m.org_id, m.role
  from unnest(${[...userIds]}::text[]) as u (id)
  cross join lateral (
    select org_id, role from keyhook.memberships where user_id = u.id order by org_id desc limit ${max}
  ) as m`

export type MemberFilter = { orgId: OrgId | null; userId: UserId | null }

/** Newest organization first. `before` is the last member of the page before. */
export const listMembers = (
  db: Database,
  { orgId, userId }: MemberFilter,
  { before, limit }: { before: { orgId: string; userId: string } | null; limit: number },
) => db<UserRole[]>`
  select user_id, org_id, role from keyhook.memberships
  where (${orgId}::text is null or org_id = ${orgId})
    and (${userId}::text is null or user_id = ${userId})
    and (${before?.orgId ?? null}::text is null or (org_id, user_id) < (${before?.orgId ?? null}, ${before?.userId ?? null}))
  order by org_id desc, user_id desc
  limit ${limit}`

export const organizationsOfUser = async (tx: Transaction, userId: UserId): Promise<OrgId[]> => {
  const rows = await tx<{ org_id: OrgId }[]>`select org_id from keyhook.memberships where user_id = ${userId}`
  return rows.map((row) => row.org_id)
}

export type MemberRow = {
  user_id: UserId
  email: string | null
  name: string | null
  verified: boolean
  service: boolean
  role: Role
  created_at: Date
}

export const listMembersOf = (
  db: Database | Transaction,
  orgId: OrgId,
  { before, limit, userId = null }: { before: string | null; limit: number; userId?: UserId | null },
) => db<MemberRow[]>`
  select m.user_id, u.email, u.name, u.verified_by is not null as verified, u.is_service as service, m.role, m.created_at
  from keyhook.memberships m join keyhook.users u on u.id = m.user_id
  where m.org_id = ${orgId} and (${before}::text is null or m.user_id < ${before})
    and (${userId}::text is null or m.user_id = ${userId})
  order by m.user_id desc limit ${limit}`

/** Call it with the organization locked, or another request removes the last one at the same time. */
export const countOtherOwners = async (tx: Transaction, orgId: OrgId, userId: UserId): Promise<number> => {
  const { count } = await tx<{ count: number }[]>`
    select count(*)::int as count from keyhook.memberships
    where org_id = ${orgId} and role = 'owner' and user_id <> ${userId}`.one()
  return count
}

export const countServiceMembers = async (tx: Transaction, orgId: OrgId): Promise<number> => {
  const { count } = await tx<{ count: number }[]>`
    select count(*)::int as count
    from keyhook.memberships m join keyhook.users u on u.id = m.user_id
    where m.org_id = ${orgId} and u.is_service`.one()
  return count
}

export const countMembers = async (db: Executor, orgId: OrgId) =>
  db<{ members: number; invitations: number }[]>`
    select (select count(*)::int from keyhook.memberships where org_id = ${orgId}) as members,
      (select count(*)::int from keyhook.invitations where org_id = ${orgId} and expires_at > now()) as invitations`.one()

export const invitationDays = 7

export type InvitationRow = {
  id: InvitationId
  email: string
  role: Role
  created_by: UserId
  created_at: Date
  expires_at: Date
  /** The link went to the address by mail, and to nobody else. */
  mailed: boolean
}

/** Expired ones of the organization are deleted first, and do not count. */
export const countInvitations = async (tx: Transaction, orgId: OrgId): Promise<number> => {
  await tx`delete from keyhook.invitations where org_id = ${orgId} and expires_at < now()`
  const { count } = await tx<{ count: number }[]>`
    select count(*)::int as count from keyhook.invitations where org_id = ${orgId}`.one()
  return count
}

export const insertInvitation = (
  tx: Transaction,
  orgId: OrgId,
  invitation: Pick<InvitationRow, 'id' | 'email' | 'role' | 'created_by' | 'mailed'> & { hash: Buffer },
) =>
  tx<InvitationRow[]>`
    insert into keyhook.invitations (org_id, id, email, role, secret_hash, created_by, mailed, expires_at)
    values (${orgId}, ${invitation.id}, ${invitation.email}, ${invitation.role}, ${invitation.hash},
      ${invitation.created_by}, ${invitation.mailed}, now() + make_interval(days => ${invitationDays}))
    returning id, email, role, created_by, created_at, expires_at, mailed`.one()

export const listInvitations = (db: Database, orgId: OrgId, { before, limit }: PageRequest) => db<InvitationRow[]>`
  select id, email, role, created_by, created_at, expires_at, mailed from keyhook.invitations
  where org_id = ${orgId} and expires_at > now() and (${before}::text is null or id < ${before})
  order by id desc limit ${limit}`

export const deleteInvitation = (tx: Transaction, orgId: OrgId, id: InvitationId) =>
  tx<Pick<InvitationRow, 'email' | 'role'>[]>`
    delete from keyhook.invitations where org_id = ${orgId} and id = ${id} returning email, role`.first()

export type FoundInvitation = InvitationRow & { org_id: OrgId; organization: string }

/** Gives a mailed invitation the link of its mail, the same for every attempt to send it. Null if it was accepted or withdrawn. */
export const setInvitationLink = (tx: Transaction, orgId: OrgId, id: InvitationId, hash: Buffer) =>
  tx<{ role: Role; organization: string; inviter: string | null }[]>`
    update keyhook.invitations i set secret_hash = ${hash}
    from keyhook.organizations o, keyhook.users u
    where i.org_id = ${orgId} and i.id = ${id} and i.mailed and i.expires_at > now()
      and o.id = i.org_id and u.id = i.created_by
    returning i.role, o.name as organization, case when u.verified_by is not null then u.email end as inviter`.first()

/** The invitation of a link; null if it was accepted, withdrawn or is too old. Names its organization: the link is the key. */
export const findInvitation = (db: Executor, hash: Buffer) =>
  db<FoundInvitation[]>`
    select i.org_id, o.name as organization, i.id, i.email, i.role, i.created_by, i.created_at, i.expires_at, i.mailed
    from keyhook.invitations i join keyhook.organizations o on o.id = i.org_id
    where i.secret_hash = ${hash} and i.expires_at > now()`.first()
