import { type Database, UnsuitableDatabase } from './database.ts'

type Found = { setting: string; value: string; source: string | null; change: string }

type Need = { setting: string; wanted: string; fits?: (value: string) => boolean }

/* What the driver, pg-boss and our statements rely on. Checked and not set: behind a pooler a session is not ours. */
const needs: readonly Need[] = [
  { setting: 'server_version_num', wanted: '150000 or more', fits: (value) => Number(value) >= 150_000 },
  { setting: 'server_encoding', wanted: 'UTF8', fits: (value) => value === 'UTF8' || value === 'SQL_ASCII' },
  { setting: 'DateStyle', wanted: 'ISO', fits: (value) => value.startsWith('ISO') },
  { setting: 'bytea_output', wanted: 'hex' },
  { setting: 'array_nulls', wanted: 'on' },
  { setting: 'standard_conforming_strings', wanted: 'on' },
  { setting: 'default_transaction_isolation', wanted: 'read committed' },
  { setting: 'default_transaction_read_only', wanted: 'off' },
  // With `replica` no foreign key cascades: a removed user would keep the keys.
  { setting: 'session_replication_role', wanted: 'origin' },
  // All values but `off` wait for the disk. Statements that need not wait set it themselves.
  { setting: 'synchronous_commit', wanted: 'on', fits: (value) => value !== 'off' },
]

/** Throws everything that an operator has to change, at once. */
export async function checkSuitable(db: Database): Promise<void> {
  // A setting of a role in a database overrides all others that an operator can make.
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
      : [`DATABASE_URL: ${setting} is "${value}" and must be "${wanted}". ${remedy(setting, row)}`]
  })
  if (problems.length > 0) throw new UnsuitableDatabase(problems.join('\n'))
}

const remedies: Record<string, string> = {
  server_version_num: 'Keyhook needs PostgreSQL 15 or newer.',
  server_encoding: "Create the database with: create database … template template0 encoding 'UTF8'.",
}

function remedy(setting: string, found: Found | undefined): string {
  const known = remedies[setting]
  if (known !== undefined) return known
  if (found?.source === 'client') return 'DATABASE_URL sets it: remove it there.'
  // In a read-only transaction the change itself would be rejected.
  const change =
    setting === 'default_transaction_read_only' ? `begin read write; ${found?.change}; commit` : found?.change
  return `This changes it for new connections: ${change}`
}
