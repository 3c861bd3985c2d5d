import type { Database, Transaction } from '../db/database.ts'
import type { Role } from '../domain/roles.ts'
import type { OrgId, UserId } from '../kernel/ids.ts'

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

export const deleteMembership = async (tx: Transaction, orgId: OrgId, userId: UserId): Promise<Role | null> => {
  const [gone] = await tx<{ role: Role }[]>`
    delete from keyhook.memberships where org_id = ${orgId} and user_id = ${userId} returning role`
  return gone?.role ?? null
}

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
  email: string
  name: string | null
  verified: boolean
  role: Role
  created_at: Date
}

export const listMembersOf = (
  db: Database | Transaction,
  orgId: OrgId,
  { before, limit, userId = null }: { before: string | null; limit: number; userId?: UserId | null },
) => db<MemberRow[]>`
  select m.user_id, u.email, u.name, u.verified_by is not null as verified, m.role, m.created_at
  from keyhook.memberships m join keyhook.users u on u.id = m.user_id
  where m.org_id = ${orgId} and (${before}::text is null or m.user_id < ${before})
    and (${userId}::text is null or m.user_id = ${userId})
  order by m.user_id desc limit ${limit}`

/** Call it with the organization locked, or another request removes the last one at the same time. */
export const countOtherOwners = async (tx: Transaction, orgId: OrgId, userId: UserId): Promise<number> => {
  const [row] = await tx<{ count: number }[]>`
    select count(*)::int as count from keyhook.memberships
    where org_id = ${orgId} and role = 'owner' and user_id <> ${userId}`
  return row!.count
}
