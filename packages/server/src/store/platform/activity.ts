import type { Executor } from '../../db/database.ts'
import type { DatabaseId, OrgId } from '../../kernel/ids.ts'

export type ActivityRow = {
  size_bytes: number | null
  connections: number | null
  connections_max: number | null
  at: Date | null
}

/** Into the rows that the storage monitor makes: a database without one is not available, or not measured yet. */
export const recordActivity = async (
  db: Executor,
  node: string,
  found: readonly { id: DatabaseId; sizeBytes: number; connections: number; connectionsMax: number }[],
): Promise<void> => {
  await db`
    update keyhook.database_figures f
    set size_bytes = a.size_bytes, connections = a.connections, connections_max = a.connections_max,
      activity_at = clock_timestamp()
    from unnest(${found.map(({ id }) => id)}::text[], ${found.map(({ sizeBytes }) => sizeBytes)}::bigint[],
      ${found.map(({ connections }) => connections)}::int[], ${found.map(({ connectionsMax }) => connectionsMax)}::int[])
      as a (id, size_bytes, connections, connections_max)
    join keyhook.databases d on d.node = ${node} and d.id = a.id and d.status = 'available'
    where f.org_id = d.org_id and f.database_id = d.id`
}

/** Figures older than two minutes are not shown: the database or its node is down. Null if there is no such database. */
export const findActivity = async (db: Executor, orgId: OrgId, id: DatabaseId): Promise<ActivityRow | null> => {
  const [row] = await db<ActivityRow[]>`
    select f.size_bytes::float8, f.connections, f.connections_max, f.activity_at as at
    from keyhook.databases d
    left join keyhook.database_figures f on f.org_id = d.org_id and f.database_id = d.id
      and d.status = 'available' and f.activity_at > now() - interval '2 minutes'
    where d.org_id = ${orgId} and d.id = ${id} and d.status <> 'deleted'`
  return row ?? null
}
