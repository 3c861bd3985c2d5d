import type { Usage } from '../domain/invoice.ts'
import type { DatabaseId, OrgId } from '../kernel/ids.ts'
import type { Executor, Transaction } from './database.ts'

export const startUsage = async (tx: Transaction, orgId: OrgId, id: DatabaseId): Promise<void> => {
  await tx`
    insert into keyhook.database_usage (org_id, database_id, started_at) values (${orgId}, ${id}, clock_timestamp())
    on conflict do nothing`
}

export const endUsage = async (tx: Transaction, orgId: OrgId, id: DatabaseId): Promise<void> => {
  await tx`
    update keyhook.database_usage set ended_at = clock_timestamp()
    where org_id = ${orgId} and database_id = ${id} and ended_at is null`
}

export const usageOf = async (tx: Executor, orgId: OrgId, period: { from: Date; to: Date }): Promise<Usage[]> => {
  const rows = await tx<{ database_id: DatabaseId; name: string; started_at: Date; ended_at: Date | null }[]>`
    select u.database_id, d.name, u.started_at, u.ended_at
    from keyhook.database_usage u
    join keyhook.databases d on d.org_id = u.org_id and d.id = u.database_id
    where u.org_id = ${orgId} and u.started_at < ${period.to} and (u.ended_at is null or u.ended_at > ${period.from})
    order by u.database_id`
  return rows.map((row) => ({
    databaseId: row.database_id,
    name: row.name,
    from: row.started_at,
    to: row.ended_at,
  }))
}

/** Organizations that used something in the period and have no invoice for it. */
export const organizationsToBill = async (
  db: Executor,
  month: string,
  period: { from: Date; to: Date },
): Promise<OrgId[]> => {
  const rows = await db<{ org_id: OrgId }[]>`
    select distinct u.org_id
    from keyhook.database_usage u
    where u.started_at < ${period.to} and (u.ended_at is null or u.ended_at > ${period.from})
      and not exists (select 1 from keyhook.invoices i where i.org_id = u.org_id and i.month = ${month})
    order by u.org_id`
  return rows.map((row) => row.org_id)
}
