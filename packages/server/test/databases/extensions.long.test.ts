import { rm } from 'node:fs/promises'
import { Client } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { scramVerifier } from '../../src/databases/database.ts'
import type { LocalInstances } from '../../src/databases/drivers/driver.ts'
import { offeredExtensions } from '../../src/databases/drivers/local/extensions.ts'
import { nodeOf } from '../../src/databases/drivers/local/home.ts'
import { newId } from '../../src/lib/ids.ts'
import { extensionUses } from './support/extension-uses.ts'
import { openInstances } from './support/local-instances.ts'
import { scratchFolder } from './support/platform.ts'

let folder: string
let instances: LocalInstances
let sql: Client
beforeAll(async () => {
  folder = await scratchFolder()
  instances = openInstances((await nodeOf(folder)).dataDir)
  const { signal } = new AbortController()
  const { host, port } = await instances.provision(newId('db'), {
    passwordVerifier: await scramVerifier('secret'),
    signal,
  })
  sql = new Client({ host, port, user: 'app', database: 'app', password: 'secret' })
  await sql.connect()
})
afterAll(async () => {
  await sql.end()
  for (const id of await instances.existing()) await instances.remove(id)
  await instances.close()
  await rm(folder, { recursive: true, force: true })
})

test.each(offeredExtensions)('the owner of a database creates, uses and drops the extension %s', async (name) => {
  const [statement, answer] = extensionUses[name]
  if (name !== 'plpgsql') await sql.query(`create extension "${name}"`)
  const results = [await sql.query(statement)].flat()
  expect(results.at(-1)!.rows).toEqual([{ v: answer }])
  await expect(sql.query(`drop extension "${name}" cascade`).then(() => 'dropped', String)).resolves.toMatch(
    // The language belongs to the superuser.
    name === 'plpgsql' ? /must be owner/ : /^dropped$/,
  )
})

test('only offered extensions are listed, and no other can be created', async () => {
  const { rows } = await sql.query('select name from pg_available_extensions order by name')
  expect(rows.map((row) => row.name)).toEqual([...offeredExtensions].sort())
  // Trusted ones among them: without the list an owner could create these.
  for (const name of [
    'isn',
    'tcn',
    'plperl',
    'pltcl',
    'jsonb_plperl',
    'xml2',
    'file_fdw',
    'dblink',
    'pg_stat_statements',
  ]) {
    await expect(sql.query(`create extension ${name} cascade`), name).rejects.toThrow(/is not available/)
  }
  await expect(sql.query('create language plperl')).rejects.toThrow(/is not available/)
})

test('an owner cannot bring a language, a library or a path of extensions', async () => {
  for (const [statement, reason] of [
    ["set extension_control_path = '$system'", 'permission denied to set parameter'],
    ["alter database app set extension_control_path = '$system'", 'permission denied to set parameter'],
    ["set dynamic_library_path = '/tmp'", 'permission denied to set parameter'],
    ["load '/usr/lib/x86_64-linux-gnu/libc.so.6'", 'not allowed'],
    ["create function f() returns int language c as 'x', 'y'", 'permission denied for language c'],
    [
      "create function f() returns int language internal as 'pg_backend_pid'",
      'permission denied for language internal',
    ],
    ['create trusted language l handler plpgsql_call_handler', 'must be superuser|permission denied'],
  ] as const) {
    await expect(sql.query(statement), statement).rejects.toThrow(new RegExp(reason))
  }
})
