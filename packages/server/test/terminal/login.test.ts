import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, readFile, stat } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { cleanEnvironment, program } from '../kit/processes.ts'
import { openTerminal, ownersTerminal } from './support/terminal.ts'
import '../kit/server-limits.ts'

test('login checks the token with the server, stores it for this user only, and chooses the one organization', async () => {
  const { api, orgId, key } = await ownersTerminal()
  const { text, json, run, env, home } = await openTerminal()
  expect(await run('keys', 'list')).toMatchObject({ code: 3, stderr: expect.stringContaining('npx keyhook login') })

  const wrong = await openTerminal({ ...env, KEYHOOK_TOKEN: `${key.api_key.slice(0, -1)}!` })
  const refused = await wrong.run('login', '--url', api.url)
  expect([refused.code, refused.stdout]).toEqual([3, ''])
  expect(refused.stderr).toContain('npx keyhook login')
  await expect(stat(join(home, 'config'))).rejects.toThrow('ENOENT')

  const withToken = await openTerminal({ ...env, KEYHOOK_TOKEN: key.api_key })
  const shown = await withToken.text('login', '--url', api.url)
  expect(shown).toContain(orgId)
  expect(shown).toContain(key.key_prefix)
  expect(shown).not.toContain(key.api_key)
  const file = join(home, 'config/keyhook/config.json')
  expect((await stat(file)).mode & 0o777).toBe(0o600)
  expect((await stat(join(home, 'config/keyhook'))).mode & 0o777).toBe(0o700)

  expect(await json('keys', 'list')).toMatchObject([{ id: key.id }])
  expect(await json('whoami')).toMatchObject({ url: api.url, organization_id: orgId, token: { kind: 'api_key' } })
  expect(await text('whoami')).not.toContain(key.api_key)

  await chmod(file, 0o640)
  const open = await run('keys', 'list')
  expect([open.code, open.stderr]).toEqual([2, expect.stringContaining(`chmod 600 ${file}`)])
  await chmod(file, 0o600)

  expect(await text('logout')).toContain(api.url)
  expect(await readFile(file, 'utf8')).not.toContain(key.api_key)
  expect((await run('keys', 'list')).code).toBe(3)
})

test('an address that goes on into the API is refused with the reason, and not with "no such record"', async () => {
  const { api, key } = await ownersTerminal()
  const { run } = await openTerminal({ KEYHOOK_URL: `${api.url}/api/v1`, KEYHOOK_TOKEN: key.api_key })
  expect(await run('keys', 'list')).toMatchObject({ code: 2, stderr: expect.stringContaining('leave out /api/v1') })
})

test('profiles hold several servers, and the environment wins over them', async () => {
  const [one, two] = [await ownersTerminal(), await ownersTerminal()]
  const { env, json, text, run } = await openTerminal()
  for (const [name, side] of Object.entries({ one, two })) {
    const terminal = await openTerminal({ ...env, KEYHOOK_TOKEN: side.key.api_key })
    await terminal.text('login', '--url', side.api.url, '--profile', name)
  }
  const orgOf = async (...args: string[]) =>
    (await json<{ organization_id: string }>('whoami', ...args)).organization_id
  expect(await orgOf()).toBe(two.orgId)
  expect(await orgOf('--profile', 'one')).toBe(one.orgId)
  await text('profiles', 'use', 'one')
  expect(await orgOf()).toBe(one.orgId)
  expect(await json('profiles')).toMatchObject([
    { name: 'one', current: true, url: one.api.url },
    { name: 'two', current: false, organization_id: two.orgId },
  ])
  expect(await run('keys', 'list', '--profile', 'three')).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/no profile "three"/),
  })

  // The stored token is not sent to a server that it was not stored for.
  const other = await openTerminal({ ...env, KEYHOOK_URL: two.api.url })
  const refused = await other.run('keys', 'list')
  expect([refused.code, refused.stderr]).toEqual([3, expect.stringContaining('Set KEYHOOK_TOKEN too')])
  const both = await openTerminal({ ...env, KEYHOOK_URL: two.api.url, KEYHOOK_TOKEN: two.key.api_key })
  expect(await both.json('keys', 'list')).toMatchObject([{ id: two.key.id }])
})

test('with several organizations one has to be named, by option, variable or login', async () => {
  const { api, orgId } = await ownersTerminal()
  const second = await api.organization()
  const { token } = await api.person([
    { orgId, role: 'owner' },
    { orgId: second, role: 'owner' },
  ])
  const { run, json, env } = await openTerminal({ KEYHOOK_URL: api.url, KEYHOOK_TOKEN: token })
  const asked = await run('keys', 'list')
  expect(asked.code).toBe(2)
  for (const id of [orgId, second]) expect(asked.stderr).toContain(id)
  expect(await json('keys', 'list', '--org', second)).toEqual([])
  expect(await (await openTerminal({ ...env, KEYHOOK_ORG: second })).json('keys', 'list')).toEqual([])
  const unknown = await run('login', '--org', 'org_x')
  expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('is not one of your organizations')])
})

test('login explains a wrong address, TLS on a plain port, another program and an expired token', async () => {
  const { api, key } = await ownersTerminal()
  const { run } = await openTerminal({ KEYHOOK_TOKEN: key.api_key })
  const login = async (url: string) => {
    const { code, stderr } = await run('login', '--url', url)
    return [code, stderr]
  }
  const port = new URL(api.url).port
  expect(await login('http://127.0.0.1:9')).toEqual([1, expect.stringMatching(/cannot be reached/)])
  expect(await login('http://keyhook.invalid')).toEqual([1, expect.stringContaining('host name is not known')])
  expect(await login(`https://127.0.0.1:${port}`)).toEqual([
    1,
    expect.stringContaining('use http:// instead of https://'),
  ])
  expect(await login(`${api.url}/docs`)).toEqual([2, expect.stringContaining('without a path')])
  expect(await login('keyhook.example.com')).toEqual([2, expect.stringContaining('is not an address such as')])

  const page = createServer((_request, response) => response.end('<h1>hello</h1>')).listen(0, '127.0.0.1')
  await once(page, 'listening')
  onTestFinished(() => void page.close())
  const { port: pagePort } = page.address() as { port: number }
  expect(await login(`http://127.0.0.1:${pagePort}`)).toEqual([1, expect.stringContaining('Check the address')])

  const claims = Buffer.from(JSON.stringify({ exp: 1_700_000_000 })).toString('base64url')
  const expired = await openTerminal({ KEYHOOK_TOKEN: `e30.${claims}.x` })
  expect(await expired.run('login', '--url', api.url)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('expired at 2023-11-14T22:13:20.000Z'),
  })
})

test('a token is read from standard input, in a process of its own', async () => {
  const { api, key, orgId } = await ownersTerminal()
  const { env } = await openTerminal()
  const args = [program, 'login', '--url', api.url, '--token-stdin', '--json']
  const child = spawn(process.execPath, args, { env: cleanEnvironment(env) })
  child.stdin.end(`${key.api_key}\n`)
  const [stdout, [code]] = await Promise.all([text(child.stdout), once(child, 'close')])
  expect([code, JSON.parse(stdout)]).toEqual([0, { profile: 'default', url: api.url, organization_id: orgId }])
})

test('a token that is typed at the prompt is not shown', async () => {
  const { api, key } = await ownersTerminal()
  const { env } = await openTerminal()
  const command = `${process.execPath} ${program} login --url ${api.url}`
  const child = spawn('script', ['-qec', command, '/dev/null'], { env: cleanEnvironment(env) })
  const ended = once(child, 'close')
  let shown = ''
  child.stdout.setEncoding('utf8').on('data', (chunk) => {
    shown += chunk
  })
  await expect.poll(() => shown).toContain('use the browser: ')
  child.stdin.write(`${key.api_key}\r`)
  await expect.poll(() => shown).toContain('Logged in')
  expect(shown).not.toContain(key.api_key)
  child.stdin.end()
  expect(await ended).toEqual([0, null])
})
