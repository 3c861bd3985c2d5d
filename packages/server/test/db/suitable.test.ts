import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connect, type Database } from '../../src/db/database.ts'
import { checkSuitable } from '../../src/db/migrate.ts'
import { type Embedded, openEmbedded } from '../../src/postgres/index.ts'
import { scratchFolder } from '../databases/support/platform.ts'
import { removeDataDirectory } from '../kit/data-directory.ts'
import '../kit/server-limits.ts'

// Its own server: a setting of the whole server would affect every other test.
let folder: string
let embedded: Embedded
let admin: Database
// Names that have to be quoted.
const [role, database] = ['the role', 'The database']

beforeAll(async () => {
  folder = await scratchFolder()
  embedded = await openEmbedded({ dataDir: folder, purpose: 'serve', settings: { fsync: 'off' } })
  admin = connect(embedded.connection, { name: 'test admin', connectionsMax: 1 })
  await admin.unsafe(`create role "${role}" login password 'x'`)
  await admin.unsafe(`create database "${database}"`)
})
afterAll(async () => {
  await admin.end({ timeout: 5 })
  await embedded.stop()
  await removeDataDirectory(folder)
})

/** On a new connection, because such settings apply only then. */
async function asRole<T>(work: (db: Database) => Promise<T>): Promise<T> {
  const target = { ...embedded.connection, user: role, password: 'x', database }
  const db = connect(target, { name: 'test', connectionsMax: 1 })
  try {
    return await work(db)
  } finally {
    await db.end({ timeout: 5 })
  }
}

const problem = () =>
  asRole((db) =>
    checkSuitable(db).then(
      () => null,
      (error: Error) => error.message,
    ),
  )

const wrong = {
  DateStyle: 'German',
  bytea_output: 'escape',
  array_nulls: 'off',
  standard_conforming_strings: 'off',
  default_transaction_isolation: 'serializable',
  default_transaction_read_only: 'on',
}
const places = [
  ['the role in the database', `alter role "${role}" in database "${database}"`],
  ['the role', `alter role "${role}"`],
  ['the database', `alter database "${database}"`],
  ['the whole server', 'alter system'],
] as const

describe.each(places)('set for %s', (_, place) => {
  test.each(Object.entries(wrong))(
    '%s: the error contains the statement that fixes it, and the role itself can run it',
    async (name, value) => {
      const change = async (clause: string) => {
        await admin.unsafe(`set default_transaction_read_only = off`)
        await admin.unsafe(`${place} ${clause}`)
        await admin`select pg_reload_conf()`
      }
      await change(`set ${name} = '${value}'`)
      await expect.poll(problem).not.toBeNull()
      const message = (await problem())!
      expect(message).toMatch(new RegExp(`^DATABASE_URL: ${name} is "[^"]+" and must be "[^"]+"\\. [^\\n]+$`))
      const [, statement] = /This changes it for new connections: (.+)$/.exec(message)!
      await asRole((db) => db.unsafe(statement!))
      expect(await problem()).toBeNull()
      await admin.unsafe(`alter role "${role}" in database "${database}" reset all`)
      if (!place.includes(' in database ')) await change(`reset ${name}`)
      await expect.poll(problem).toBeNull()
    },
  )
})
