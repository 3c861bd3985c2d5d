import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { type ConnectionTarget, connect } from '../../src/db/database.ts'
import { migrate, readMigrations } from '../../src/db/migrate.ts'
import { openEmbedded } from '../../src/postgres/index.ts'
import { removeDataDirectory } from './data-directory.ts'

declare module 'vitest' {
  interface ProvidedContext {
    postgres: ConnectionTarget
  }
}

export const templateDatabase = 'keyhook_template'

/** One real PostgreSQL for the whole run, with a migrated template that every test file clones. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const dataDir = await mkdtemp(join(tmpdir(), 'keyhook-test-'))
  // No fsync: the data is needed for this run only, and tests of crashes start their own servers.
  const embedded = await openEmbedded({
    dataDir,
    purpose: 'serve',
    // The versions that DATABASE_URL may name, one after the other in CI; null is the one that npm installed.
    postgresBin: process.env.KEYHOOK_TEST_POSTGRES_BIN ?? null,
    settings: { fsync: 'off', full_page_writes: 'off' },
  })
  const admin = connect(embedded.connection, { name: 'test setup', connectionsMax: 1 })
  await admin.unsafe(`create database ${templateDatabase}`)
  await admin.end()
  const template = connect(
    { ...embedded.connection, database: templateDatabase },
    { name: 'test template', connectionsMax: 1 },
  )
  await migrate(template, await readMigrations())
  await template.end()
  project.provide('postgres', embedded.connection)
  return async () => {
    await embedded.stop()
    await removeDataDirectory(dataDir)
  }
}
