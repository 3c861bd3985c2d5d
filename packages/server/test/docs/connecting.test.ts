import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Platform, startPlatform } from '../databases/support/platform.ts'
import { blocksOf } from './blocks.ts'
import '../kit/server-limits.ts'

const root = fileURLToPath(new URL('../../../../', import.meta.url))
const blocks = blocksOf(readFileSync(join(root, 'docs/databases.md'), 'utf8'))
const textOf = (about: string) => blocks.find((block) => block.about === about)!.text

let platform: Platform
let folder: string
let env: Record<string, string>
beforeAll(async () => {
  platform = await startPlatform({ KEYHOOK_DATABASES_TLS: 'required' })
  const { connection_string, password } = await platform.createDatabase('documented')
  folder = join(platform.folder, 'customer')
  await mkdir(folder)
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  env = {
    PATH: process.env.PATH!,
    HOME: folder,
    KEYHOOK_URL: platform.url,
    DATABASE_URL: connection_string!,
    PGPASSWORD: password,
  }
  // What the first block does with curl, which may not be installed.
  await writeFile(join(folder, 'database-ca.pem'), await (await fetch(`${platform.url}/database-ca.pem`)).text())
})
afterAll(() => platform.close())

const run = (program: string, ...args: string[]) => promisify(execFile)(program, args, { cwd: folder, env })
const isThere = (program: string, ...args: string[]) =>
  run(program, ...args).then(
    () => true,
    () => false,
  )

test('the example for curl in docs/databases.md downloads the authority', async ({ skip }) => {
  if (!(await isThere('curl', '--version'))) skip('curl is not installed')
  await run('sh', '-ec', textOf('authority'))
  expect(readFileSync(join(folder, 'database-ca.pem'), 'utf8')).toMatch(/^-----BEGIN CERTIFICATE-----/)
})

test('the example for psql in docs/databases.md connects with verify-full', async ({ skip }) => {
  if (!(await isThere('psql', '--version'))) skip('psql is not installed (Debian: postgresql-client)')
  expect((await run('sh', '-ec', textOf('psql'))).stdout).toContain('42')
})

test('the example for Node in docs/databases.md connects with verify-full', async () => {
  await writeFile(join(folder, 'example.mjs'), textOf('pg'))
  expect((await run(process.execPath, 'example.mjs')).stdout).toBe('42\n')
})

test('the example for Python in docs/databases.md connects with verify-full', async ({ skip }) => {
  if (!(await isThere('python3', '-c', 'import psycopg'))) skip('psycopg is not installed for python3')
  expect((await run('python3', '-c', textOf('psycopg'))).stdout).toBe('42\n')
})
