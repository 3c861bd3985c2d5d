import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { newId } from '../../src/lib/ids.ts'
import { call } from '../kit/client.ts'
import type { TestApi } from '../kit/installation.ts'
import { keyhook, keyhookHere, scratchDirectory } from '../kit/processes.ts'
import { countRows } from '../kit/rows.ts'
import { type CommandsBeside, commandsBeside } from './support/commands-beside.ts'

/*
 * Every command, next to a server on the same database.
 */

let beside: CommandsBeside
let api: TestApi

beforeAll(async () => {
  beside = await commandsBeside()
  api = beside.api
})
afterAll(() => beside.close())

const run: CommandsBeside['run'] = (...given) => beside.run(...given)
const json: CommandsBeside['json'] = (...given) => beside.json(...given)
const text: CommandsBeside['text'] = (...given) => beside.text(...given)

test('a user is created, added, promoted and removed, and the running server applies each step at once', {
  timeout: 60_000,
}, async () => {
  const org = await json<{ id: string; name: string }>('org', 'create', '--name', 'Acme')
  expect(org).toEqual({ id: expect.stringMatching(/^org_/), name: 'Acme' })
  const user = await json<{ id: string; email: string }>(
    'user',
    'create',
    '--email',
    'ada@example.com',
    '--name',
    'Ada',
  )
  expect(user).toEqual({ id: expect.stringMatching(/^usr_/), email: 'ada@example.com' })
  const { token, ...rest } = await json<{ token: string }>('token', 'issue', '--user', user.id, '--ttl', '1h')
  expect(rest).toEqual({})

  const status = (path: string) => call(`${api.url}${path}`, { token }).then((reply) => reply.status)
  const keys = `/api/v1/organizations/${org.id}/api-keys`
  const auditLog = `/platform/v1/organizations/${org.id}/audit-log`
  const member = ['--org', org.id, '--user', user.id]
  expect(await status(keys)).toBe(404)
  expect(await json('member', 'set', ...member, '--role', 'member')).toEqual({
    org: org.id,
    user: user.id,
    role: 'member',
  })
  expect([await status(keys), await status(auditLog)]).toEqual([200, 403])
  await text(/is now owner of/, 'member', 'set', ...member, '--role', 'owner')
  expect(await status(auditLog)).toBe(200)
  expect(await json('member', 'remove', ...member)).toEqual({ org: org.id, user: user.id })
  expect(await status(keys)).toBe(404)
  expect(await json('user', 'remove', '--user', user.id)).toEqual({ removed: user.id })
  expect(await status('/api/v1/organizations')).toBe(401)
})

test('without --json every command prints a sentence, and token issue prints only the token', {
  timeout: 60_000,
}, async () => {
  await text(/^Created the organization org_\w+ \(In words\)\.\n$/, 'org', 'create', '--name', 'In words')
  await text(/^Created the user usr_\w+ \(w@example\.com\)\.\n$/, 'user', 'create', '--email', 'w@example.com')
  await text(/up to date/, 'migrate')
  expect(await json('migrate')).toEqual({ applied: [] })
  const orgId = await api.organization()
  const { userId } = await api.person([{ orgId, role: 'owner' }])
  const issued = await run('token', 'issue', '--user', userId)
  expect(issued.stdout).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n$/)
  expect((await call(`${api.url}/api/v1/organizations`, { token: issued.stdout.trim() })).status).toBe(200)
  const operator = await json<{ token: string }>('token', 'issue', '--operator')
  expect((await call(`${api.url}/api/v1/organizations`, { token: operator.token })).status).toBe(401)
  await text(/is no longer a member of/, 'member', 'remove', '--org', orgId, '--user', userId)
  await text(/^Removed the user/, 'user', 'remove', '--user', userId)
})

test('org list and user list show all rows, as aligned lines or as one JSON array', {
  timeout: 60_000,
}, async () => {
  const own = await commandsBeside()
  onTestFinished(own.close)
  for (const what of ['org', 'user']) {
    expect(await own.json(what, 'list')).toEqual([])
    expect(await own.run(what, 'list')).toEqual({ code: 0, stdout: '', stderr: '' })
  }
  const acme = await own.json<{ id: string }>('org', 'create', '--name', 'Acme')
  const ada = await own.json<{ id: string }>('user', 'create', '--email', 'ada@example.com', '--subject', 'sub-1')
  const grace = await own.json<{ id: string }>('user', 'create', '--email', 'g@example.com', '--name', 'Grace')
  const gone = await own.json<{ id: string }>('user', 'create', '--email', 'gone@example.com')
  await own.json('user', 'remove', '--user', gone.id)
  const created_at = expect.stringMatching(/^\d{4}-.*Z$/)
  expect(await own.json('org', 'list')).toEqual([{ id: acme.id, name: 'Acme', created_at }])
  const verified = { verified_by: 'operator', is_service: false, created_at }
  expect(await own.json('user', 'list')).toEqual([
    { id: ada.id, email: 'ada@example.com', name: null, subject: 'sub-1', ...verified },
    { id: grace.id, email: 'g@example.com', name: 'Grace', subject: null, ...verified },
  ])
  const [first] = await own.json<{ created_at: string }[]>('org', 'list')
  const today = first!.created_at.slice(0, 10)
  expect((await own.run('org', 'list')).stdout).toBe(`${acme.id}  ${today}  Acme\n`)
  expect((await own.run('user', 'list')).stdout).toBe(
    `${ada.id}  ${today}  ada@example.com\n${grace.id}  ${today}  g@example.com    Grace\n`,
  )

  // More than are read at once, and exactly as many as two times that.
  await own.api.db`
    insert into keyhook.organizations (id, name) select 'org_' || lpad(n::text, 4, '0'), 'x' from generate_series(1, 999) n`
  const all = await own.json<{ id: string }[]>('org', 'list')
  expect(new Set(all.map(({ id }) => id)).size).toBe(1_000)
  expect((await own.run('org', 'list')).stdout.trimEnd().split('\n')).toHaveLength(1_000)
  for (const what of ['org', 'user'])
    expect((await own.run(what, 'list', '--help')).stdout).toContain(`Example:\n  npx keyhook ${what} list`)
})

type Wrong = [what: string, args: string[], line: RegExp]
const unknownUser = newId('usr')
const unknownOrg = newId('org')
const wrongInputs: Wrong[] = [
  ['no command', [], /"npx keyhook --help"/],
  ['a group without a command', ['org'], /"npx keyhook org --help" lists the commands/],
  ['a command that does not exist', ['frobnicate'], /^There is no command 'frobnicate'\. /],
  ['the help of a command that does not exist', ['help', 'frobnicate'], /^There is no command 'frobnicate'\. /],
  ['the help of a misspelled subcommand', ['help', 'org', 'creat'], /'creat'.*Did you mean create/],
  ['the help of a misspelled subcommand, in the other order', ['org', 'help', 'creat'], /'creat'.*Did you mean create/],
  ['a misspelled command', ['serv'], /Did you mean serve/],
  ['an option that does not exist', ['migrate', '--fast'], /^There is no option '--fast'\. /],
  [
    'an option that is misspelled',
    ['org', 'create', '--nam', 'Acme'],
    /^There is no option '--nam'\. The option '--name <name>' is required\. /,
  ],
  ['an option left out', ['org', 'create'], /--name.*"npx keyhook org create --help" shows how to use the command\./],
  ['an option without its value', ['org', 'create', '--name'], /^The option '--name <name>' needs a value\. /],
  ['too many arguments', ['migrate', 'now'], /^The command takes 0 arguments, and not 1\. /],
  ['a role of serve that does not exist', ['serve', '--role', 'boss'], /Allowed choices are all, api/],
  ['an empty name', ['org', 'create', '--name', ' '], /^name: must not be blank/],
  ['a name of 256 characters', ['org', 'create', '--name', 'x'.repeat(256)], /at most 255/],
  ['a name with a line break', ['org', 'create', '--name', 'a\nb'], /control characters/],
  ['no e-mail address', ['user', 'create', '--email', 'ada'], /^email: must be an e-mail address/],
  ['an invalid id', ['user', 'remove', '--user', 'ada'], /--user: "ada" is not an id/],
  ['an id of two lines', ['user', 'remove', '--user', 'a\nb'], /--user: "a\\nb" is not an id/],
  ['an id of something else', ['user', 'remove', '--user', unknownOrg], /is not an id such as usr_/],
  [
    'a user who does not exist',
    ['user', 'remove', '--user', unknownUser],
    new RegExp(`There is no user ${unknownUser}`),
  ],
  ['a token for an unknown user', ['token', 'issue', '--user', unknownUser], /There is no user/],
  ['a token without a subject', ['token', 'issue'], /--user USER or --operator/],
  ['a token with two subjects', ['token', 'issue', '--user', unknownUser, '--operator'], /--user USER or --operator/],
  ['a lifetime of zero', ['token', 'issue', '--operator', '--ttl', '0s'], /--ttl: "0s"/],
  ['a lifetime in words', ['token', 'issue', '--operator', '--ttl', 'an hour'], /--ttl: "an hour"/],
  ['a lifetime of centuries', ['token', 'issue', '--operator', '--ttl', '99999d'], /at most 366d/],
  [
    'an organization that does not exist',
    ['member', 'set', '--org', unknownOrg, '--user', unknownUser, '--role', 'owner'],
    /There is no organization/,
  ],
  [
    'a role that does not exist',
    ['member', 'set', '--org', unknownOrg, '--user', unknownUser, '--role', 'boss'],
    /"boss" is not one of owner, admin, member/,
  ],
  [
    'a member of an organization that does not exist',
    ['member', 'remove', '--org', unknownOrg, '--user', unknownUser],
    /There is no organization/,
  ],
]

describe('wrong input prints one line, exits with 2 and changes nothing', () => {
  test.each(wrongInputs)('%s', async (_, given, line) => {
    const before = await countRows(api.db)
    const ended = await run(...given)
    expect(ended.stderr).toMatch(line)
    expect(ended.stderr.match(/\n/g), ended.stderr).toHaveLength(1)
    expect([ended.code, ended.stdout]).toEqual([2, ''])
    expect(await countRows(api.db)).toEqual(before)
  })

  test('the exit code of the process is 2 too', async () => {
    const ended = await keyhook(['token', 'issue'], beside.environment)
    expect([ended.code, ended.stdout, ended.stderr.match(/\n/g)?.length]).toEqual([2, '', 1])
  })

  test('an e-mail address that is taken, in any case', async () => {
    const { id } = await json<{ id: string }>('user', 'create', '--email', 'twice@example.com')
    const ended = await run('user', 'create', '--email', 'Twice@Example.com')
    expect([ended.code, ended.stderr]).toEqual([
      2,
      `There is a user with the e-mail address Twice@Example.com already: ${id}.\n`,
    ])
    const first = await json<{ id: string }>('user', 'create', '--email', 'one@example.com', '--subject', 'same')
    const second = await run('user', 'create', '--email', 'two@example.com', '--subject', 'same')
    expect(second).toMatchObject({ code: 2, stderr: `There is a user with the subject same already: ${first.id}.\n` })
  })

  test('all invalid settings are named, one per line, without their secrets', async () => {
    const ended = await keyhookHere(['migrate'], {
      PORT: '80a',
      DATABASE_URL: 'mysql://u:hunter2@h/d',
      KEYHOOK_KEY_TAG: 'K',
    })
    expect(ended.code).toBe(2)
    expect(
      ended.stderr
        .split('\n')
        .map((line) => line.split(':')[0])
        .sort(),
    ).toEqual(['', 'DATABASE_URL', 'KEYHOOK_KEY_TAG', 'KEYHOOK_MASTER_KEY', 'PORT'])
    expect(ended.stderr).not.toContain('hunter2')
  })

  test('a database that cannot be reached is one line', async () => {
    const ended = await keyhookHere(['migrate'], {
      ...beside.environment,
      DATABASE_URL: 'postgres://u:hunter2@127.0.0.1:1/d',
    })
    expect([ended.code, ended.stdout]).toEqual([1, ''])
    expect(ended.stderr).toMatch(/^PostgreSQL cannot be reached \(DATABASE_URL\): [^\n]+\n$/)
    expect(ended.stderr).not.toContain('hunter2')
  })

  test('for a database with unsuitable settings every setting to change is named', async () => {
    const odd =
      '?bytea_output=escape&DateStyle=German&default_transaction_isolation=serializable&array_nulls=off&synchronous_commit=off'
    const ended = await keyhookHere(['migrate'], {
      ...beside.environment,
      DATABASE_URL: beside.environment.DATABASE_URL + odd,
    })
    expect([ended.code, ended.stdout]).toEqual([2, ''])
    expect(ended.stderr.match(/^DATABASE_URL: \w+ is "[^"]+" and must be "[^"]+"/gm)).toEqual([
      'DATABASE_URL: DateStyle is "German, DMY" and must be "ISO"',
      'DATABASE_URL: bytea_output is "escape" and must be "hex"',
      'DATABASE_URL: array_nulls is "off" and must be "on"',
      'DATABASE_URL: default_transaction_isolation is "serializable" and must be "read committed"',
      'DATABASE_URL: synchronous_commit is "off" and must be "on"',
    ])
    // The URL sets them, so no role and no database has to be changed.
    expect(ended.stderr.match(/DATABASE_URL sets it: remove it there\.$/gm)).toHaveLength(5)
  })

  test('a port for receive that is in use', async () => {
    const state = await scratchDirectory()
    const args = ['receive', '--no-register', '--port', new URL(api.url).port]
    const ended = await keyhookHere(args, { XDG_STATE_HOME: state })
    expect([ended.code, ended.stdout]).toEqual([2, ''])
    expect(ended.stderr).toMatch(/^--port: the receiver cannot listen on port \d+ \(EADDRINUSE\)[^\n]+\n$/)
  })

  test.each([
    ['a file', '/etc/passwd', /^KEYHOOK_DATA_DIR: "\/etc\/passwd" cannot be used: \/etc\/passwd is no directory\.\n$/],
    ['below a file', '/etc/passwd/x', /\/etc\/passwd is no directory\.\n$/],
    [
      'where nothing can be made',
      '/proc/keyhook',
      /^KEYHOOK_DATA_DIR: [^\n]+ cannot be made \(E\w+\)\. Give this user access, or set [^\n]+\.\n$/,
    ],
  ])('a data directory that is %s is one line', async (_, path, line) => {
    const ended = await keyhookHere(['migrate'], { KEYHOOK_DATA_DIR: path })
    expect([ended.code, ended.stdout]).toEqual([2, ''])
    expect(ended.stderr).toMatch(line)
  })

  test('a database that does not exist is one line without a stack', async () => {
    const missing = beside.environment.DATABASE_URL!.replace(/\/[^/]+$/, '/no_such_database')
    const ended = await keyhookHere(['migrate'], { ...beside.environment, DATABASE_URL: missing })
    expect(ended.code).not.toBe(0)
    expect(ended.stderr).toMatch(/^[^\n]*no_such_database[^\n]*\n$/)
  })
})

test('--help describes every command and exits with 0', async () => {
  const help = await run('--help')
  expect(help.code).toBe(0)
  for (const command of ['serve', 'migrate', 'org', 'user', 'member', 'token']) expect(help.stdout).toContain(command)
  // Users paste what they see, and in a checkout only `npx keyhook` works.
  const named = help.stdout.match(/\b(npx )?keyhook [a-z[]/g)!
  expect(named.length).toBeGreaterThan(4)
  for (const one of named) expect(one).toMatch(/^npx /)
  expect((await run('member', 'set', '--help')).stdout).toMatch(/^Usage: npx keyhook member set .+--role/s)
  for (const args of [
    ['help', 'member', 'set'],
    ['member', 'help', 'set'],
  ])
    expect(await run(...args)).toMatchObject({ code: 0, stdout: expect.stringContaining('--role') })
  expect((await run('help')).stdout).toBe(help.stdout)
  expect(await run('--version')).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) })
})
