import { randomBytes } from 'node:crypto'
import { expect, inject, onTestFinished, test } from 'vitest'
import { connect, type Database } from '../../src/db/database.ts'
import { checkSuitable, type Migration, migrate, readMigrations, SchemaMismatch } from '../../src/db/migrate.ts'
import { ensureFirstOrganization } from '../../src/startup/welcome.ts'

/** An empty database, as the first start finds it. */
async function emptyDatabase(): Promise<Database> {
  const server = inject('postgres')
  const name = `empty_${randomBytes(6).toString('hex')}`
  const admin = connect(server, { name: 'test admin', connectionsMax: 1 })
  await admin.unsafe(`create database ${name}`)
  const db = connect({ ...server, database: name }, { name: 'test', connectionsMax: 12 })
  onTestFinished(async () => {
    await db.end({ timeout: 5 })
    await admin.unsafe(`drop database ${name} with (force)`)
    await admin.end()
  })
  return db
}

const step = (version: number, sql: string, breaking = true): Migration => {
  return { version, name: `step_${version}`, breaking, sql, checksum: sql }
}
const versions = (applied: Migration[]) => applied.map(({ version }) => version)
const one = step(1, 'create table keyhook.one (id int)')
const two = step(2, 'create table keyhook.two (id int)')

test('nodes that start together on an empty database migrate once, and create one organization', async () => {
  const db = await emptyDatabase()
  const migrations = await readMigrations()
  const applied = await Promise.all(Array.from({ length: 6 }, () => migrate(db, migrations)))
  expect(applied.filter((steps) => steps.length > 0).map(versions)).toEqual([versions(migrations)])
  const first = await Promise.all(Array.from({ length: 6 }, () => ensureFirstOrganization(db, { mayCreate: true })))
  expect(new Set(first.map((made) => made?.orgId)).size).toBe(1)
  expect(first.filter((made) => made?.isNew)).toHaveLength(1)
})

test('a second start applies nothing, and a newer program only the new migrations', async () => {
  const db = await emptyDatabase()
  expect(versions(await migrate(db, [one]))).toEqual([1])
  expect(versions(await migrate(db, [one]))).toEqual([])
  expect(versions(await migrate(db, [one, two]))).toEqual([2])
})

test('a role that may only read and write starts on an existing schema', async () => {
  const db = await emptyDatabase()
  await migrate(db, [one])
  const user = `reader_${randomBytes(6).toString('hex')}`
  await db.unsafe(`create role ${user} login password 'x'`)
  await db.unsafe(`grant usage on schema keyhook to ${user}; grant select on all tables in schema keyhook to ${user}`)
  const target = { ...inject('postgres'), database: db.target.database, user, password: 'x' }
  const theirs = connect(target, { name: 'test', connectionsMax: 1 })
  onTestFinished(async () => {
    await theirs.end({ timeout: 5 })
    await db.unsafe(`drop owned by ${user}; drop role ${user}`)
  })
  expect(await migrate(theirs, [one])).toEqual([])
  await expect(migrate(theirs, [one, two])).rejects.toThrow(SchemaMismatch)
  await expect(migrate(theirs, [one, two])).rejects.toThrow(
    'The schema is at 1, this Keyhook needs 2, and this role may not change it (permission denied for schema keyhook): ' +
      'run npx keyhook migrate as the role that owns the schema.',
  )
})

test('a program older than the schema does not start, and reports why', async () => {
  const db = await emptyDatabase()
  await migrate(db, [one, two])
  await expect(migrate(db, [one])).rejects.toThrow(SchemaMismatch)
  await expect(migrate(db, [one])).rejects.toThrow(/at schema 2, .*knows up to 1 .*migration 2 .*newer Keyhook/)
})

// Seen to fail when every unknown migration is refused.
test('a program older than the schema starts if all that it does not know is compatible', async () => {
  const db = await emptyDatabase()
  const three = step(3, 'create table keyhook.three (id int)', false)
  await migrate(db, [one, { ...two, breaking: false }, three])
  expect(await migrate(db, [one])).toEqual([])
  expect(await migrate(db, [one, two])).toEqual([])
  await migrate(db, [one, two, three, step(4, 'select 1')])
  await expect(migrate(db, [one])).rejects.toThrow(/cannot run after migration 4/)
})

test('a migration that was edited after it was applied is rejected', async () => {
  const db = await emptyDatabase()
  await migrate(db, [one, two])
  await expect(migrate(db, [one, { ...two, checksum: 'edited' }])).rejects.toThrow(/Migration 2 .*other contents/)
})

test('a schema from before the first release is rejected with the command that removes it', async () => {
  const db = await emptyDatabase()
  await migrate(db, [{ ...one, checksum: 'old' }, two, step(24, 'select 1')])
  await db`alter table keyhook.schema_migrations drop column breaking`
  const schema = [one]
  await expect(migrate(db, schema)).rejects.toThrow(SchemaMismatch)
  await expect(migrate(db, schema, '/srv/keyhook')).rejects.toThrow(
    'The data directory /srv/keyhook has the schema of a Keyhook before its first release, which this one cannot use. ' +
      "Move it away and start again with a new one: mv '/srv/keyhook' '/srv/keyhook.old'",
  )
  const rejected = migrate(db, schema)
  await expect(rejected).rejects.toThrow(/^DATABASE_URL: .*drop schema if exists keyhook, keyhook_jobs cascade$/)
  await db.unsafe('drop schema if exists keyhook, keyhook_jobs cascade')
  expect(versions(await migrate(db, schema))).toEqual([1])
})

test('a migration that was inserted before an applied one is rejected', async () => {
  const db = await emptyDatabase()
  await migrate(db, [one, step(3, 'select 1')])
  await expect(migrate(db, [one, two, step(3, 'select 1')])).rejects.toThrow(SchemaMismatch)
})

test('a migration that fails leaves nothing behind, not even the ones before it', async () => {
  const db = await emptyDatabase()
  await expect(migrate(db, [one, step(2, 'create table keyhook.two (id int); select 1/0')])).rejects.toThrow(/zero/)
  const [left] = await db`select to_regnamespace('keyhook') as schema`
  expect(left!.schema).toBeNull()
  expect(versions(await migrate(db, [one, two]))).toEqual([1, 2])
})

test('every migration file has its own number, and the files are sorted by it', async () => {
  const migrations = await readMigrations()
  const numbers = versions(migrations)
  expect(new Set(numbers).size).toBe(numbers.length)
  expect(numbers.toSorted((a, b) => a - b)).toEqual(numbers)
})

test('the first migration is frozen: an installation with another one would not start', async () => {
  const [first] = await readMigrations()
  expect(first!.checksum).toBe('a14c1a46525934e852aab496104b0bde08699f25bb326322e4adbe0c5665a3b8')
})

test('a server that is too old is rejected', async () => {
  const answers = [{ setting: 'server_version_num', value: '140012' }]
  const old = (() => Promise.resolve(answers)) as unknown as Database
  await expect(checkSuitable(old)).rejects.toThrow(/server_version_num is "140012".* needs PostgreSQL 15 or newer/)
  const db = await emptyDatabase()
  await expect(checkSuitable(db)).resolves.toBeUndefined()
})

test('a role without foreign key cascades is rejected: a removed user would keep the keys', async () => {
  const db = await emptyDatabase()
  const [{ name }] = (await db`select current_database() as name`) as unknown as [{ name: string }]
  await db.unsafe(`alter database ${name} set session_replication_role = 'replica'`)
  const other = connect({ ...inject('postgres'), database: name }, { name: 'test', connectionsMax: 1 })
  onTestFinished(() => other.end({ timeout: 5 }))
  await expect(checkSuitable(other)).rejects.toThrow(/session_replication_role is "replica"/)
})
