import { execFile, spawnSync } from 'node:child_process'
import { existsSync, globSync } from 'node:fs'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { createClient } from '@keyhook/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Platform, startPlatform } from '../../server/test/databases/support/platform.ts'
import { until } from '../../server/test/kit/until.ts'
import { authorityFile, connectionSnippets, withPassword } from '../src/pages/databases/connection-snippets.ts'

/*
 * Each sample that the console shows connects to a real database and checks its certificate. A machine without the tool for one
 * skips it by its name.
 */
let platform: Platform
let folder: string
let samples: ReadonlyMap<string, string>

beforeAll(async () => {
  platform = await startPlatform()
  const { token } = await platform.person([{ orgId: platform.orgId, role: 'owner' }])
  const client = createClient({ url: platform.url, token, organization: platform.orgId })
  const { id, password } = await client.databases.create({ name: 'samples' })
  const address = await until(async () => (await client.databases.get(id)).connection_string)
  folder = await mkdtemp(join(tmpdir(), 'kh-samples-'))
  await writeFile(join(folder, authorityFile), await client.databases.certificateAuthority())
  await symlink(join(import.meta.dirname, '../../../node_modules'), join(folder, 'node_modules'))
  const shown = connectionSnippets(withPassword(address, password), true)
  samples = new Map(shown.map(({ name, text }) => [name, text]))
})
afterAll(async () => {
  await platform?.close()
  if (folder !== undefined) await rm(folder, { recursive: true })
})

const run = (program: string, ...args: string[]) => spawnSync(program, args, { encoding: 'utf8' })
const runs = (program: string, ...args: string[]): boolean => run(program, ...args).status === 0

const jdbcDriver = '/usr/share/java/postgresql.jar'

/** The newest version of pgx that this machine has. Go is not asked to download anything. */
function pgxVersion(): string | undefined {
  if (!runs('go', 'version')) return undefined
  const cache = run('go', 'env', 'GOMODCACHE').stdout.trim()
  const zips = globSync(`${cache}/cache/download/github.com/jackc/pgx/v5/@v/*.zip`)
  const versions = zips.map((path) => basename(path, '.zip'))
  return versions.sort((a, b) => a.localeCompare(b, 'en', { numeric: true })).at(-1)
}

type Sample = {
  name: string
  /** What the machine lacks; false if nothing. */
  missing: string | false
  /** The files of a program that uses the sample as it is shown, and prints 42. */
  files: (shown: string) => Record<string, string>
  command: [program: string, ...args: string[]]
  env?: Record<string, string>
}

const python = { command: ['python3', 'sample.py'] } satisfies Partial<Sample>
const pgx = pgxVersion()

const all: Sample[] = [
  {
    name: 'psql',
    missing: !runs('psql', '--version') && 'psql',
    files: (shown) => ({ 'sample.sh': `${shown} --no-psqlrc -At -c 'select 6 * 7'\n` }),
    command: ['sh', 'sample.sh'],
  },
  {
    name: 'Node',
    missing: false,
    files: (shown) => ({
      'sample.mjs': `${shown}\nconsole.log((await pool.query('select 6 * 7 as n')).rows[0].n)\nawait pool.end()\n`,
    }),
    command: [process.execPath, 'sample.mjs'],
  },
  {
    name: 'Python',
    missing: !runs('python3', '-c', 'import psycopg') && 'psycopg',
    files: (shown) => ({ 'sample.py': `${shown}\nprint(connection.execute("select 6 * 7").fetchone()[0])\n` }),
    ...python,
  },
  {
    name: 'Django',
    missing: !runs('python3', '-c', 'import django, psycopg') && 'Django',
    files: (shown) => ({
      'settings.py': shown,
      'sample.py': [
        'import os, django',
        'os.environ["DJANGO_SETTINGS_MODULE"] = "settings"',
        'django.setup()',
        'from django.db import connection',
        'cursor = connection.cursor()',
        'cursor.execute("select 6 * 7")',
        'print(cursor.fetchone()[0])',
      ].join('\n'),
    }),
    ...python,
  },
  {
    name: 'Rails',
    missing: !runs('ruby', '-e', "require 'active_record'; require 'pg'") && 'Active Record and pg',
    files: (shown) => ({
      'database.yml': shown,
      'sample.rb': [
        "require 'active_record'",
        "require 'yaml'",
        "ActiveRecord::Base.establish_connection(YAML.load_file('database.yml')['production'])",
        "puts ActiveRecord::Base.connection.select_value('select 6 * 7')",
      ].join('\n'),
    }),
    command: ['ruby', 'sample.rb'],
  },
  {
    name: 'Spring',
    missing: !(runs('javac', '-version') && existsSync(jdbcDriver)) && `a JDK and ${jdbcDriver}`,
    files: (shown) => ({
      'application.properties': shown,
      'Sample.java': `import java.nio.file.*; import java.sql.*; import java.util.*;
class Sample {
  public static void main(String[] args) throws Exception {
    Properties all = new Properties();
    all.load(Files.newBufferedReader(Path.of("application.properties")));
    String[] of = { "url", "username", "password" };
    for (int i = 0; i < of.length; i++) of[i] = all.getProperty("spring.datasource." + of[i]);
    try (Connection connection = DriverManager.getConnection(of[0], of[1], of[2])) {
      ResultSet rows = connection.createStatement().executeQuery("select 6 * 7");
      rows.next();
      System.out.println(rows.getInt(1));
    }
  }
}
`,
    }),
    command: ['java', '-cp', jdbcDriver, 'Sample.java'],
  },
  {
    name: 'Go',
    missing: pgx === undefined && 'Go with the module github.com/jackc/pgx/v5',
    files: (shown) => ({
      'go.mod': `module sample\n\ngo 1.25\n\nrequire github.com/jackc/pgx/v5 ${pgx}\n`,
      'main.go': `package main
import ("context"; "fmt"; "github.com/jackc/pgx/v5")
func main() {
	ctx := context.Background()
	${shown}
	if err != nil { panic(err) }
	var n int
	if err := conn.QueryRow(ctx, "select 6 * 7").Scan(&n); err != nil { panic(err) }
	fmt.Println(n)
}
`,
    }),
    command: ['go', 'run', '.'],
    env: { GOFLAGS: '-mod=mod', GOPROXY: 'off', GOSUMDB: 'off', GOTOOLCHAIN: 'local' },
  },
]

describe('the samples of a database', () => {
  for (const { name, missing, files, command, env } of all) {
    const title = missing ? `${name} is skipped: this machine lacks ${missing}` : `${name} connects`
    test.skipIf(missing !== false)(title, async () => {
      for (const [file, text] of Object.entries(files(samples.get(name)!))) await writeFile(join(folder, file), text)
      const [program, ...args] = command
      const { stdout } = await promisify(execFile)(program, args, { cwd: folder, env: { ...process.env, ...env } })
      expect(stdout.trim()).toBe('42')
    })
  }

  test('are all checked here', () => {
    expect([...samples.keys()]).toEqual(all.map(({ name }) => name))
  })
})
