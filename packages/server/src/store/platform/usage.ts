import type { Executor, Transaction } from '../../db/database.ts'
import type { Usage } from '../../domain/invoice.ts'
import type { DatabaseId, OrgId } from '../../kernel/ids.ts'

export const startUsage = async (tx: Transaction, orgId: OrgId, id: DatabaseId): Promise<void> => {
  await tx`
    insert into keyhook.database_usage (org_id, database_id, started_at) values (${orgId}, ${id}, clock_timestamp())
    on conflict do nothing`
}

export const endUsage = async (tx: Transaction, orgId: OrgId, id: DatabaseId): Promise<void> => {
  // Not before its start: a clock that was set back must not block a deletion.
  await tx`
    update keyhook.database_usage set ended_at = greatest(started_at, clock_timestamp())
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

/** Every month that began before `until` with usage of an organization and without an invoice. */
export const unbilledMonths = (db: Executor, until: Date) => db<{ org_id: OrgId; month: string }[]>`
  select distinct u.org_id, to_char(m.begins, 'YYYY-MM') as month
  from keyhook.database_usage u
  cross join lateral generate_series(
    date_trunc('month', u.started_at at time zone 'UTC'),
    -- Usage that ended exactly with a month is not in the next one.
    least(u.ended_at, ${until}) at time zone 'UTC' - interval '1 microsecond',
    interval '1 month'
  ) as m (begins)
  where not exists (
    select 1 from keyhook.invoices i where i.org_id = u.org_id and i.month = to_char(m.begins, 'YYYY-MM')
  )
  order by u.org_id, month`
