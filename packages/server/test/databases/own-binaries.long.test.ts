import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { offeredExtensions } from '../../src/databases/drivers/local/extensions.ts'
import { findPostgres, installedNative, linkLibraries } from '../../src/postgres/binaries.ts'
import { call } from '../kit/client.ts'
import { removeDataDirectory } from '../kit/data-directory.ts'
import { keyhook, scratchDirectory, serve } from '../kit/processes.ts'
import { customerOf } from './support/customer.ts'
import { extensionUses } from './support/extension-uses.ts'
import { portRange } from './support/platform.ts'

/** Debian 12 and 13. */
const installed = ['/usr/lib/postgresql/15/bin', '/usr/lib/postgresql/17/bin'].filter((bin) =>
  existsSync(join(bin, 'postgres')),
)
if (installed.length === 0) console.log('not run: PostgreSQL of Debian, because no postgresql-15 or -17 is installed')

test.skipIf(installed.length === 0)('Keyhook and its databases run on the PostgreSQL of Debian', async () => {
  const bin = installed[0]!
  const dataDir = join(await scratchDirectory(), 'data')
  onTestFinished(() => removeDataDirectory(dataDir))
  const { ready } = await serve({
    KEYHOOK_DATA_DIR: dataDir,
    KEYHOOK_POSTGRES_BIN: bin,
    KEYHOOK_DATABASES_PORTS: portRange(),
  })
  const environment = { KEYHOOK_DATA_DIR: dataDir, KEYHOOK_POSTGRES_BIN: bin }
  const token = (await keyhook(['token', 'issue', '--user', ready.owner_id], environment)).stdout.trim()
  const base = `${ready.url}/platform/v1/organizations/${ready.organization_id}`
  const customer = customerOf((path, more) => call(`${base}${path}`, { token, ...more }))
  const shop = await customer.createDatabase('shop')
  // The authority is there once a database is.
  const ca = await (await fetch(`${ready.url}/database-ca.pem`)).text()
  const open = async ({ host, port, password }: { host: string | null; port: number | null; password: string }) => {
    const address = { host: host!, port: port!, user: 'app', database: 'app', password }
    const client = new Client({ ...address, ssl: { ca }, enableChannelBinding: true })
    onTestFinished(() => client.end())
    await client.connect()
    return client
  }
  const sql = await open(shop)
  const { rows } = await sql.query(
    "select current_setting('server_version_num')::int / 10000 as major, lower('ÄB') as lower",
  )
  expect(rows).toEqual([{ major: Number(/\/(\d+)\/bin$/.exec(bin)![1]), lower: 'äb' }])

  for (const name of offeredExtensions) {
    const [statement, answer] = extensionUses[name]
    if (name !== 'plpgsql') await sql.query(`create extension "${name}"`)
    expect([await sql.query(statement)].flat().at(-1)!.rows, name).toEqual([{ v: answer }])
  }
  for (const name of ['isn', 'tcn']) {
    await expect(sql.query(`create extension ${name}`), name).rejects.toThrow(/is not available/)
  }
  // The owner of the database cannot switch the check off.
  for (const statement of [
    'drop event trigger keyhook_check_extensions',
    'alter event trigger keyhook_check_extensions disable',
    'drop schema keyhook cascade',
    'create or replace function keyhook.check_extensions() returns event_trigger language plpgsql as $$ begin end $$',
    'set session_replication_role = replica',
  ]) {
    await expect(sql.query(statement), statement).rejects.toThrow(/must be owner|permission denied/)
  }
  await expect(
    sql.query('do $$ begin create extension isn; exception when others then null; end $$; select isbn(null)'),
  ).rejects.toThrow(/does not exist/)

  await sql.query('create table kept as select 7 as n')
  const backup = await customer.takeBackup(shop.id)
  expect(backup).toMatchObject({ status: 'completed' })
  const { database } = await customer.restoreBackup(backup.id)
  expect((await (await open(database)).query('select n from kept')).rows).toEqual([{ n: 7 }])
})

test('any PostgreSQL that is installed as usual is found, with its extensions', async () => {
  const native = await installedNative()
  await linkLibraries(native)
  const find = await findPostgres(join(native, 'bin'))
  expect(await find('/nowhere', undefined)).toEqual({
    initdb: join(native, 'bin/initdb'),
    postgres: join(native, 'bin/postgres'),
    major: 18,
    extensions: join(native, 'share/postgresql/extension'),
  })
})

test('a directory without PostgreSQL is named', async () => {
  const empty = await mkdtemp(join(tmpdir(), 'kh-p-'))
  onTestFinished(() => rm(empty, { recursive: true, force: true }))
  await expect(findPostgres(empty)).rejects.toThrow(
    `KEYHOOK_POSTGRES_BIN: ${join(empty, 'initdb')} is not a program that can be run.`,
  )
})
