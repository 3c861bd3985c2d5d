import { type Database, UnsuitableDatabase } from '../db/database.ts'

type Found = { setting: string; value: string; source: string | null; change: string }

type Need = { setting: string; wanted: string; fits?: (value: string) => boolean }

/*
 * What the driver, pg-boss and our own statements rely on, and a role or a database may have set otherwise: times would be
 * read with days and months exchanged, secrets could not be opened, what waits for a lock would be refused, and what was
 * answered as taken could be gone after a crash. Looked at rather than set: a pooler lets few settings through, and gives every
 * transaction another connection.
 */
const needs: readonly Need[] = [
  { setting: 'server_version_num', wanted: '150000 or more', fits: (value) => Number(value) >= 150_000 },
  { setting: 'server_encoding', wanted: 'UTF8', fits: (value) => value === 'UTF8' || value === 'SQL_ASCII' },
  { setting: 'DateStyle', wanted: 'ISO', fits: (value) => value.startsWith('ISO') },
  { setting: 'bytea_output', wanted: 'hex' },
  { setting: 'array_nulls', wanted: 'on' },
  { setting: 'standard_conforming_strings', wanted: 'on' },
  { setting: 'default_transaction_isolation', wanted: 'read committed' },
  { setting: 'default_transaction_read_only', wanted: 'off' },
  // Otherwise no foreign key cascades: whoever is removed would keep their keys.
  { setting: 'session_replication_role', wanted: 'origin' },
  // Any of its other values waits for the disk at least. Statements that need not wait say so themselves.
  { setting: 'synchronous_commit', wanted: 'on', fits: (value) => value !== 'off' },
]

/** Throws what an operator has to change, all of it at once. */
export async function checkSuitable(db: Database): Promise<void> {
  // Of all that an operator can set, what is set for a role in a database goes before everything else.
  const rows = await db<Found[]>`
    select s.setting, current_setting(s.setting) as value, p.source,
      format('alter role %I in database %I set %s = %L', session_user, current_database(), s.setting, s.wanted) as change
    from unnest(
      ${needs.map((need) => need.setting)}::text[], ${needs.map((need) => need.wanted)}::text[]
    ) as s (setting, wanted)
    left join pg_settings p on lower(p.name) = lower(s.setting)`
  const found = new Map(rows.map((row) => [row.setting, row]))
  const problems = needs.flatMap(({ setting, wanted, fits = (value) => value === wanted }) => {
    const row = found.get(setting)
    const value = row?.value ?? ''
    return fits(value)
      ? []
      : [`DATABASE_URL: ${setting} is "${value}" there, and has to be "${wanted}". ${cure(setting, row)}`]
  })
  if (problems.length > 0) throw new UnsuitableDatabase(problems.join('\n'))
}

const cures: Record<string, string> = {
  server_version_num: 'Keyhook needs PostgreSQL 15 or newer.',
  server_encoding: "Make the database with: create database … template template0 encoding 'UTF8'.",
}

function cure(setting: string, found: Found | undefined): string {
  const known = cures[setting]
  if (known !== undefined) return known
  if (found?.source === 'client') return 'The connection itself asks for it: take it out of DATABASE_URL.'
  // Or it would itself be refused as a change.
  const change =
    setting === 'default_transaction_read_only' ? `begin read write; ${found?.change}; commit` : found?.change
  return `New connections have it right after: ${change}`
}
