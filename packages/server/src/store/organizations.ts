import type { Database, Executor, Transaction } from '../db/database.ts'
import type { OrgId, UserId } from '../kernel/ids.ts'
import type { PageRequest } from './page.ts'

export type OrganizationRow = { id: OrgId; name: string; created_at: Date }

export const insertOrganization = async (tx: Transaction, id: OrgId, name: string): Promise<OrganizationRow> => {
  const [row] = await tx<OrganizationRow[]>`
    insert into keyhook.organizations (id, name) values (${id}, ${name}) returning id, name, created_at`
  return row!
}

export const findOrganization = async (db: Executor, id: OrgId): Promise<OrganizationRow | null> => {
  const [row] = await db<OrganizationRow[]>`select id, name, created_at from keyhook.organizations where id = ${id}`
  return row ?? null
}

export const renameOrganization = async (tx: Transaction, id: OrgId, name: string): Promise<void> => {
  await tx`update keyhook.organizations set name = ${name} where id = ${id}`
}

/** Newest first. */
export const pageOfOrganizations = (db: Database, { before, limit }: PageRequest) => db<OrganizationRow[]>`
  select id, name, created_at from keyhook.organizations
  where ${before}::text is null or id < ${before}
  order by id desc
  limit ${limit}`

export const countOrganizations = async (db: Executor): Promise<number> => {
  const [row] = await db<{ count: number }[]>`select count(*)::int as count from keyhook.organizations`
  return row?.count ?? 0
}

/** Serializes writers that count before they insert; readers do not wait. */
export const lockOrganization = async (tx: Transaction, id: OrgId): Promise<boolean> => {
  const rows = await tx`select 1 from keyhook.organizations where id = ${id} for no key update`
  return rows.length > 0
}

/** In the order of their ids, which is that of their creation. */
export const listOrganizations = (db: Database, after: string, limit: number) => db<OrganizationRow[]>`
  select id, name, created_at from keyhook.organizations where id > ${after} order by id limit ${limit}`

export const listOrganizationsOfUser = (db: Database, userId: UserId, { before, limit }: PageRequest) =>
  db<OrganizationRow[]>`
    select o.id, o.name, o.created_at
    from keyhook.memberships m
    join keyhook.organizations o on o.id = m.org_id
    where m.user_id = ${userId} and (${before}::text is null or m.org_id < ${before})
    order by m.org_id desc
    limit ${limit}`
