import type { Executor } from '../db/database.ts'
import type { OrgId } from '../lib/ids.ts'

/**
 * What people call the users, keys and targets of some audit entries, also of those that are gone: all of a page in one statement.
 * An address that nobody has confirmed must not pass for the person who has it.
 * Ids of events are apart: whoever reports an event chooses its id, which could be that of a foreign user.
 */
export const namesOf = async (
  db: Executor,
  orgId: OrgId,
  { ids, eventIds }: { ids: readonly string[]; eventIds: readonly string[] },
): Promise<Map<string, string>> => {
  const rows = await db<{ id: string; name: string }[]>`
    with asked as materialized (select distinct id from unnest(${[...ids]}::text[]) as a (id))
    select id, type as name from keyhook.events where org_id = ${orgId} and id = any(${[...eventIds]}::text[])
    union all
    select id, coalesce(name, email) || case
        when is_service then ' (service member)' when verified_by is null then ' (unverified)' else ''
      end
      from keyhook.users where id in (select id from asked)
    union all
    select id, name || ' (' || key_prefix || '…)' from keyhook.api_keys where org_id = ${orgId} and id in (select id from asked)
    union all
    select id, url from keyhook.webhooks where org_id = ${orgId} and id in (select id from asked)
    union all
    select id, name from keyhook.databases where org_id = ${orgId} and id in (select id from asked)
    union all
    select b.id, d.name from keyhook.backups b
      join keyhook.databases d on d.org_id = b.org_id and d.id = b.database_id
      where b.org_id = ${orgId} and b.id in (select id from asked)
    union all
    select r.id, d.name from keyhook.restores r
      join keyhook.databases d on d.org_id = r.org_id and d.id = r.database_id
      where r.org_id = ${orgId} and r.id in (select id from asked)
    union all
    select id, month from keyhook.invoices where org_id = ${orgId} and id in (select id from asked)
    union all
    select id, email from keyhook.invitations where org_id = ${orgId} and id in (select id from asked)
    union all
    select id, name from keyhook.organizations where id = ${orgId} and id in (select id from asked)`
  return new Map(rows.map(({ id, name }) => [id, name]))
}
