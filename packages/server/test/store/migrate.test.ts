import { randomBytes } from 'node:crypto'
import { expect, inject, onTestFinished, test } from 'vitest'
import { connect, type Database } from '../../src/db/database.ts'
import { ensureFirstOrganization } from '../../src/startup/first-start.ts'
import { type Migration, migrate, readMigrations, SchemaMismatch } from '../../src/store/migrate.ts'
import { checkSuitable } from '../../src/store/suitable.ts'

/** An empty database of its own, as the first start finds it. */
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

const step = (version: number, sql: string): Migration => ({ version, name: `step_${version}`, sql, checksum: sql })
const versions = (applied: Migration[]) => applied.map(({ version }) => version)
const one = step(1, 'create table keyhook.one (id int)')
const two = step(2, 'create table keyhook.two (id int)')

test('nodes that start together on an empty database migrate once, and make one organization', async () => {
  const db = await emptyDatabase()
  const migrations = await readMigrations()
  const applied = await Promise.all(Array.from({ length: 6 }, () => migrate(db, migrations)))
  expect(applied.filter((steps) => steps.length > 0).map(versions)).toEqual([versions(migrations)])
  const first = await Promise.all(Array.from({ length: 6 }, () => ensureFirstOrganization(db)))
  expect(new Set(first.map((made) => made?.orgId)).size).toBe(1)
  expect(first.filter((made) => made?.isNew)).toHaveLength(1)
})

test('a second start applies nothing, a newer program only what is new', async () => {
  const db = await emptyDatabase()
  expect(versions(await migrate(db, [one]))).toEqual([1])
  expect(versions(await migrate(db, [one]))).toEqual([])
  expect(versions(await migrate(db, [one, two]))).toEqual([2])
})

test('a process that may only read and write starts on a schema that is there', async () => {
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
  // And is told what to do where it is not enough.
  await expect(migrate(theirs, [one, two])).rejects.toThrow(SchemaMismatch)
  await expect(migrate(theirs, [one, two])).rejects.toThrow(
    'The schema is at 1, this Keyhook needs 2, and this role may not change it (permission denied for schema keyhook): ' +
      'run npx keyhook migrate as the role that owns the schema.',
  )
})

test('a program older than the schema refuses to start, and says so', async () => {
  const db = await emptyDatabase()
  await migrate(db, [one, two])
  await expect(migrate(db, [one])).rejects.toThrow(SchemaMismatch)
  await expect(migrate(db, [one])).rejects.toThrow(/at schema 2 .*knows up to 1.*newer Keyhook/)
})

test('a migration that was edited after it was applied is refused, whichever one it is', async () => {
  const db = await emptyDatabase()
  await migrate(db, [one, two])
  await expect(migrate(db, [{ ...one, checksum: 'edited' }, two])).rejects.toThrow(/Migration 1 .*other contents/)
  await expect(migrate(db, [one, { ...two, checksum: 'edited' }])).rejects.toThrow(/Migration 2 .*other contents/)
})

test('a migration that slipped in before one that is applied is refused', async () => {
  const db = await emptyDatabase()
  await migrate(db, [one, step(3, 'select 1')])
  await expect(migrate(db, [one, two, step(3, 'select 1')])).rejects.toThrow(SchemaMismatch)
})

test('a migration that fails leaves nothing behind, not even those before it', async () => {
  const db = await emptyDatabase()
  await expect(migrate(db, [one, step(2, 'create table keyhook.two (id int); select 1/0')])).rejects.toThrow(/zero/)
  const [left] = await db`select to_regnamespace('keyhook') as schema`
  expect(left!.schema).toBeNull()
  expect(versions(await migrate(db, [one, two]))).toEqual([1, 2])
})

test('every migration file has a number of its own, and names are sorted by it', async () => {
  const migrations = await readMigrations()
  const numbers = versions(migrations)
  expect(new Set(numbers).size).toBe(numbers.length)
  expect(numbers.toSorted((a, b) => a - b)).toEqual(numbers)
})

test('what was on its way under the schema before, and what waited for its retry, is found under this one', async () => {
  const db = await emptyDatabase()
  const migrations = await readMigrations()
  const change = migrations.findIndex(({ name }) => name === 'lanes_keep_what_is_on_its_way')
  await migrate(db, migrations.slice(0, change))
  await db.unsafe(`
    insert into keyhook.organizations (id, name) values ('org_a', 'A');
    insert into keyhook.users (id, email) values ('usr_a', 'a@example.com');
    insert into keyhook.webhooks (org_id, id, url, event_types, secret_key_id, secret_box, created_by)
      values ('org_a', 'wh_a', 'https://example.com/', '{database.created}', 'k', 'b', 'usr_a');
    insert into keyhook.lanes (id, org_id, webhook_id) select lane_id, org_id, id from keyhook.webhooks;
    insert into keyhook.unsettled (org_id, lane_id, event_seq, due_at, lease_token, attempt, try, attempt_id, started_at)
      select 'org_a', id, n, case when n < 3 then '-infinity' else '2030-01-01Z' end::timestamptz, 1, n, n - 1,
        ('01a1dfeb-1078-7058-b25c-00000000000' || n)::uuid, '2026-11-15T12:00:00.123Z'
      from keyhook.lanes cross join generate_series(1, 3) n`)
  await migrate(db, migrations)
  expect(await db`select api_keys, webhooks from keyhook.organization_counts`).toEqual([
    { api_keys: '0', webhooks: '1' },
  ])
  expect(await db`select event_seq, attempt, try, id, started_at from keyhook.sending order by event_seq`).toEqual([
    { event_seq: '1', attempt: 1, try: 0, id: '01a1dfeb-1078-7058-b25c-000000000001', started_at: startedAt },
    { event_seq: '2', attempt: 2, try: 1, id: '01a1dfeb-1078-7058-b25c-000000000002', started_at: startedAt },
  ])
  expect(await db`select event_seq, attempt, try, due_at from keyhook.retries`).toEqual([
    { event_seq: '3', attempt: 3, try: 2, due_at: new Date('2030-01-01Z') },
  ])
})

const startedAt = new Date('2026-11-15T12:00:00.123Z')

test('a server that is too old is refused, whatever else is right there', async () => {
  const answers = [{ setting: 'server_version_num', value: '140012' }]
  const old = (() => Promise.resolve(answers)) as unknown as Database
  await expect(checkSuitable(old)).rejects.toThrow(
    /server_version_num is "140012" there.* needs PostgreSQL 15 or newer/,
  )
  const db = await emptyDatabase()
  await expect(checkSuitable(db)).resolves.toBeUndefined()
})

test('a role for which no foreign key cascades is refused: whoever is removed would keep their keys', async () => {
  const db = await emptyDatabase()
  const [{ name }] = (await db`select current_database() as name`) as unknown as [{ name: string }]
  await db.unsafe(`alter database ${name} set session_replication_role = 'replica'`)
  const other = connect({ ...inject('postgres'), database: name }, { name: 'test', connectionsMax: 1 })
  onTestFinished(() => other.end({ timeout: 5 }))
  await expect(checkSuitable(other)).rejects.toThrow(/session_replication_role is "replica" there/)
})
