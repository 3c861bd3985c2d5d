import { randomBytes } from 'node:crypto'
import { expect, inject, onTestFinished, test } from 'vitest'
import { ensureFirstOrganization } from '../../src/startup/first-start.ts'
import { connect, type Database } from '../../src/store/database.ts'
import { type Migration, migrate, readMigrations, SchemaMismatch } from '../../src/store/migrate.ts'

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
