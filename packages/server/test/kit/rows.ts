import type { Database } from '../../src/db/database.ts'

type Table = { schema: string; name: string }

/** Every table that holds data of ours, whatever migrations or libraries made it. */
const tables = (db: Database) => db<Table[]>`
  select n.nspname as schema, c.relname as name
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname not like 'pg\\_%'
  order by 1, 2`

/** How many rows each table has: equal before and after means that nothing was stored. */
export async function countRows(db: Database): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const { schema, name } of await tables(db)) {
    // Written seconds after a request, in the middle of whatever is being counted.
    if (name === 'api_key_uses') continue
    const [row] = await db.unsafe<{ n: number }[]>(`select count(*)::int as n from "${schema}"."${name}"`)
    counts[`${schema}.${name}`] = row!.n
  }
  return counts
}

/** Every row of every table as text; binary columns come out as hexadecimal. */
export async function dumpDatabase(db: Database): Promise<string> {
  const lines: string[] = []
  for (const { schema, name } of await tables(db)) {
    const rows = await db.unsafe<{ line: string }[]>(`select t::text as line from "${schema}"."${name}" t`)
    lines.push(`-- ${schema}.${name}`, ...rows.map((row) => row.line))
  }
  return lines.join('\n')
}
