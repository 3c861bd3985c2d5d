import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { type Database, isLoginRejected, UnsuitableDatabase } from './database.ts'

/** `breaking`: a program that does not know the migration must not run on its schema. */
export type Migration = { version: number; name: string; breaking: boolean; sql: string; checksum: string }

const directory = new URL('../../sql/', import.meta.url)

export async function readMigrations(from: URL = directory): Promise<Migration[]> {
  const files = (await readdir(from)).filter((file) => /^\d{4}_[a-z0-9_]+\.sql$/.test(file)).sort()
  return Promise.all(
    files.map(async (file) => {
      const sql = await readFile(new URL(file, from), 'utf8')
      const checksum = createHash('sha256').update(sql).digest('hex')
      const mark = /^-- (compatible|breaking)\b/.exec(sql)?.[1]
      if (mark === undefined) throw new Error(`${file} must begin with "-- compatible" or "-- breaking"`)
      return {
        version: Number(file.slice(0, 4)),
        name: file.slice(5, -4),
        breaking: mark === 'breaking',
        sql,
        checksum,
      }
    }),
  )
}

/** The database and this program do not match. The message tells the operator what to do. */
export class SchemaMismatch extends Error {}

type Applied = { version: number; name: string; breaking: boolean; checksum: string }

/**
 * Applies the migrations that are missing and returns them. One transaction under one lock: nodes that start together wait for
 * each other, a failed migration leaves nothing behind, and a transaction pooler is no obstacle.
 * `dataDir`: where the server keeps its data if it is the embedded one, for the instructions in an error.
 */
export async function migrate(
  db: Database,
  migrations: readonly Migration[],
  dataDir: string | null = null,
): Promise<Migration[]> {
  /** What this role would have to own, known when its statement is rejected. */
  let missing: { state: string; owned: string } | undefined
  const migrating = db.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtextextended('keyhook.migrate', 0))`
    const [found] = await tx`select to_regclass('keyhook.schema_migrations') as place`
    // Looked up first: "create … if not exists" needs the right to create, which a node that only reads and writes lacks.
    if (found!.place === null) {
      missing = { state: 'There is no schema yet', owned: 'database' }
      await tx`create schema if not exists keyhook`
      await tx`
        create table if not exists keyhook.schema_migrations (
          version integer primary key, name text not null, checksum text not null, breaking boolean not null,
          applied_at timestamptz not null default now()
        )`
    }
    // By its name, because a schema from before the first release has no such column.
    const applied = await tx<Applied[]>`
      select version, name, checksum, (to_jsonb(m) ->> 'breaking')::boolean is not false as breaking
      from keyhook.schema_migrations m order by version`
    checkApplied(applied, migrations, dataDir)
    const pending = migrations.slice(applied.length)
    missing ??= { state: `The schema is at ${applied.at(-1)?.version}`, owned: 'schema' }
    for (const migration of pending) {
      await tx.unsafe(migration.sql)
      await tx`
        insert into keyhook.schema_migrations (version, name, checksum, breaking)
        values (${migration.version}, ${migration.name}, ${migration.checksum}, ${migration.breaking})`
    }
    return [...pending]
  })
  return migrating.catch((error: unknown) => {
    if (missing === undefined || !isLoginRejected(error)) throw error
    throw new SchemaMismatch(
      `DATABASE_URL: ${missing.state}, this Keyhook needs ${migrations.at(-1)?.version}, and this role may not change it ` +
        `(${error.message}): run npx keyhook migrate as the role that owns the ${missing.owned}.`,
      { cause: error },
    )
  })
}

/** An older program starts only if every migration that it does not know is compatible: it reads and writes as before. */
function checkApplied(applied: readonly Applied[], known: readonly Migration[], dataDir: string | null): void {
  const different = applied.find((row, i) => i < known.length && known[i]?.checksum !== row.checksum)
  if (different !== undefined && different === applied[0]) throw new SchemaMismatch(oldSchema(dataDir))
  if (different !== undefined) {
    throw new SchemaMismatch(
      `Migration ${different.version} (${different.name}) was applied with other contents than this Keyhook has. ` +
        'Migrations are append-only: start the version of Keyhook that belongs to this database.',
    )
  }
  const unknown = applied.slice(known.length).find(({ breaking }) => breaking)
  if (unknown !== undefined) {
    throw new SchemaMismatch(
      `The database is at schema ${applied.at(-1)!.version}, this Keyhook knows up to ${known.at(-1)?.version} and cannot run ` +
        `after migration ${unknown.version} (${unknown.name}). Start the newer Keyhook.`,
    )
  }
}

/** Before the first release the schema was rewritten as one file, and there is no way from one to the other. */
function oldSchema(dataDir: string | null): string {
  const what = 'the schema of a Keyhook before its first release, which this one cannot use'
  return dataDir === null
    ? `DATABASE_URL: the database has ${what}. Use an empty database, or delete the old tables and all their data in ` +
        'this one: drop schema if exists keyhook, keyhook_jobs cascade'
    : `The data directory ${dataDir} has ${what}. Move it away and start again with a new one: mv '${dataDir}' '${dataDir}.old'`
}

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
