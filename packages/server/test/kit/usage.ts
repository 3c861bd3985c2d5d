import type { Database } from '../../src/db/database.ts'
import { type DatabaseId, newId, type OrgId, type UserId } from '../../src/lib/ids.ts'

/** Rows of a database that existed for that long, without the database. */
export async function recordUsage(
  db: Database,
  used: { orgId: OrgId; userId: UserId; from: string; to: string | null; name?: string },
): Promise<DatabaseId> {
  const id = newId('db')
  await db`
    insert into keyhook.databases (org_id, id, name, status, node, host, port, created_by)
    values (${used.orgId}, ${id}, ${used.name ?? 'shop'}, 'available', 'n', 'h', 1, ${used.userId})`
  await db`
    insert into keyhook.database_usage (org_id, database_id, started_at, ended_at)
    values (${used.orgId}, ${id}, ${used.from}, ${used.to})`
  return id
}
