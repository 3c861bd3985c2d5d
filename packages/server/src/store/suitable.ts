import type { Database } from './database.ts'

/** PostgreSQL was reached, and is set up so that what we say to it would mean something else. */
export class UnsuitableDatabase extends Error {}

type Need = { setting: string; wanted: string; fits?: (value: string) => boolean }

/*
 * What the driver, pg-boss and our own statements rely on, and a role or a database may have set otherwise: times would be
 * read with days and months exchanged, secrets could not be opened, and what waits for a lock would be refused. Looked at
 * rather than set: a pooler lets few settings through, and gives every transaction another connection.
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
]

/** Throws what an operator has to change, all of it at once. */
export async function checkSuitable(db: Database): Promise<void> {
  const rows = await db<{ setting: string; value: string }[]>`
    select s.setting, current_setting(s.setting) as value
    from unnest(${needs.map((need) => need.setting)}::text[]) as s (setting)`
  const values = new Map(rows.map((row) => [row.setting, row.value]))
  const problems = needs.flatMap(({ setting, wanted, fits = (value) => value === wanted }) => {
    const value = values.get(setting) ?? ''
    return fits(value)
      ? []
      : [`DATABASE_URL: ${setting} is "${value}" there, and has to be "${wanted}". ${cure(setting)}`]
  })
  if (problems.length > 0) throw new UnsuitableDatabase(problems.join('\n'))
}

const cures: Record<string, string> = {
  server_version_num: 'Keyhook needs PostgreSQL 15 or newer.',
  server_encoding: "Make the database with: create database … template template0 encoding 'UTF8'.",
}

const cure = (setting: string): string =>
  cures[setting] ??
  `The role, the database or the server sets it; "alter role … reset ${setting}" and "alter database … reset ${setting}" undo it.`
