import { pino } from 'pino'
import type { Database } from '../../../src/db/database.ts'
import { eraseNext } from '../../../src/deletion/erasure.ts'
import { until } from '../../kit/until.ts'

export type Deletion = {
  id: string
  kind: string
  target_id: string
  requested_at: string
  finished_at: string | null
  waits_for: string | null
  deleted: Record<string, number>
}

const silent = pino({ level: 'silent' })

/** Runs steps until everything that was deleted is erased. */
export async function eraseAll(db: Database): Promise<void> {
  await until(async () => {
    while (await eraseNext(db, silent)) {}
    const [open] = await db`select from keyhook.deletions where finished_at is null limit 1`
    return open === undefined
  })
}

/** Lines of every table that mention any of these, but for the log of deletions and the jobs, which are ids for an hour. */
export async function linesAbout(db: Database, texts: readonly string[]): Promise<string[]> {
  const tables = await db<{ schema: string; name: string }[]>`
    select n.nspname as schema, c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind = 'r' and n.nspname = 'keyhook' and c.relname <> 'deletions'`
  const found: string[] = []
  for (const { schema, name } of tables) {
    const rows = await db.unsafe<{ line: string }[]>(`select t::text as line from "${schema}"."${name}" t`)
    for (const { line } of rows) if (texts.some((text) => line.includes(text))) found.push(`${name}: ${line}`)
  }
  return found
}
