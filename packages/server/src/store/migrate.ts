import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { type Database, isLoginRejected } from '../db/database.ts'

export type Migration = { version: number; name: string; sql: string; checksum: string }

const directory = new URL('../../sql/', import.meta.url)

export async function readMigrations(from: URL = directory): Promise<Migration[]> {
  const files = (await readdir(from)).filter((file) => /^\d{4}_[a-z0-9_]+\.sql$/.test(file)).sort()
  return Promise.all(
    files.map(async (file) => {
      const sql = await readFile(new URL(file, from), 'utf8')
      const checksum = createHash('sha256').update(sql).digest('hex')
      return { version: Number(file.slice(0, 4)), name: file.slice(5, -4), sql, checksum }
    }),
  )
}

/** The database and this program do not fit together. The message says what to do. */
export class SchemaMismatch extends Error {}

/**
 * Brings the schema up to date and says what it applied. All of it is one transaction under one lock: nodes that start
 * together wait for each other, a failed migration leaves nothing behind, and a transaction pooler is no obstacle.
 */
export async function migrate(db: Database, migrations: readonly Migration[]): Promise<Migration[]> {
  // As far as we have come to know it before we are refused.
  let state: { is: string; owned: string } | undefined
  const newest = migrations.at(-1)?.version
  const migrating = db.begin(async (tx) => {
    await tx`select pg_advisory_xact_lock(hashtextextended('keyhook.migrate', 0))`
    const [found] = await tx`select to_regclass('keyhook.schema_migrations') as place`
    // Only then: "if not exists" asks for the right to make it before it looks, and a process may do without that right.
    if (found!.place === null) {
      state = { is: 'There is no schema yet', owned: 'database' }
      await tx`create schema if not exists keyhook`
      await tx`
        create table if not exists keyhook.schema_migrations (
          version integer primary key, name text not null, checksum text not null,
          applied_at timestamptz not null default now()
        )`
    }
    const applied = await tx<{ version: number; checksum: string; name: string }[]>`
      select version, name, checksum from keyhook.schema_migrations order by version`
    refuseMismatch(applied, migrations)
    const pending = migrations.slice(applied.length)
    state ??= { is: `The schema is at ${applied.at(-1)?.version}`, owned: 'schema' }
    for (const migration of pending) {
      await tx.unsafe(migration.sql)
      await tx`
        insert into keyhook.schema_migrations (version, name, checksum)
        values (${migration.version}, ${migration.name}, ${migration.checksum})`
    }
    return [...pending]
  })
  return migrating.catch((error: unknown) => {
    if (state === undefined || !isLoginRejected(error)) throw error
    throw new SchemaMismatch(
      `DATABASE_URL: ${state.is}, this Keyhook needs ${newest}, and this role may not change it (${error.message}): run ` +
        `npx keyhook migrate as the role that owns the ${state.owned}.`,
      { cause: error },
    )
  })
}

/** An older program on a newer schema would write what the newer one no longer understands, so it does not start. */
function refuseMismatch(
  applied: readonly { version: number; name: string; checksum: string }[],
  known: readonly Migration[],
) {
  const newest = applied.at(-1)
  if (newest !== undefined && applied.length > known.length) {
    throw new SchemaMismatch(
      `The database is at schema ${newest.version} (${newest.name}), this Keyhook knows up to ${known.at(-1)?.version}. Start the newer Keyhook.`,
    )
  }
  applied.forEach((row, i) => {
    if (known[i]?.checksum === row.checksum) return
    throw new SchemaMismatch(
      `Migration ${row.version} (${row.name}) was applied with other contents than this Keyhook has. Migrations are append-only: check out the version that belongs to this database.`,
    )
  })
}
