import { ownerDatabase, ownerRole } from '../../domain/database.ts'
import type { Activity } from '../local-instances.ts'
import { openControl } from './control.ts'
import type { Control } from './instance.ts'

const countMax = 100_000

const isCount = (value: unknown, max: number): value is number =>
  Number.isInteger(value) && 0 <= Number(value) && Number(value) <= max

/** Sessions of clients only: neither ours nor workers of PostgreSQL. */
export async function readActivity(control: Control, signal: AbortSignal): Promise<Activity> {
  const { sql, close } = await openControl(control, { name: 'keyhook activity', signal })
  try {
    const [row] = await sql<Partial<Activity>[]>`
      select pg_database_size(${ownerDatabase}::text)::float8 as "sizeBytes",
        (select count(*)::int from pg_stat_activity where backend_type = 'client backend' and usename = ${ownerRole}) as connections,
        (select case when rolconnlimit >= 0 then rolconnlimit else current_setting('max_connections')::int end
          from pg_roles where rolname = ${ownerRole}) as "connectionsMax"`
    // A program in the place of the server may answer anything, and the figures of all databases are recorded together.
    const { sizeBytes, connections, connectionsMax } = row ?? {}
    if (
      !isCount(sizeBytes, Number.MAX_SAFE_INTEGER) ||
      !isCount(connections, countMax) ||
      !isCount(connectionsMax, countMax)
    )
      throw new Error('the server answers with figures that are none')
    return { sizeBytes, connections, connectionsMax }
  } finally {
    await close()
  }
}
