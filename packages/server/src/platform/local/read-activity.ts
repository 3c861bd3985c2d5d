import { ownerDatabase, ownerRole } from '../../domain/database.ts'
import type { Activity } from '../local-instances.ts'
import { openControl } from './control.ts'
import type { Control } from './instance.ts'

/** Sessions of clients only: neither ours nor workers of PostgreSQL. */
export async function readActivity(control: Control, signal: AbortSignal): Promise<Activity> {
  const { sql, close } = await openControl(control, { name: 'keyhook activity', signal })
  try {
    const [row] = await sql<[Activity]>`
      select pg_database_size(${ownerDatabase}::text)::float8 as "sizeBytes",
        (select count(*)::int from pg_stat_activity where backend_type = 'client backend' and usename = ${ownerRole}) as connections,
        (select case when rolconnlimit >= 0 then rolconnlimit else current_setting('max_connections')::int end
          from pg_roles where rolname = ${ownerRole}) as "connectionsMax"`
    return row
  } finally {
    await close()
  }
}
