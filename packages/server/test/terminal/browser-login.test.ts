import { expect, test } from 'vitest'
import { signIn } from '../login/browser.ts'
import { startCommand } from './support/listening.ts'
import { openTerminal, ownersTerminal } from './support/terminal.ts'

/** `keyhook login --browser`, when it has printed the address. */
async function startLogin(url: string) {
  const terminal = await openTerminal()
  const login = startCommand(terminal.env, 'login', '--browser', '--url', url, '--json')
  await expect.poll(login.stderr).toMatch(/\/console\/authorize\?\S+\n/)
  const address = new URL(/http\S+/.exec(login.stderr())![0])
  const asked = Object.fromEntries(address.searchParams)
  return { terminal, login, address, asked, local: `http://127.0.0.1:${asked.port}` }
}

/** What the page does when the person confirms. */
async function confirm({ api, owner }: Awaited<ReturnType<typeof ownersTerminal>>, asked: Record<string, string>) {
  const browser = await signIn(api, owner.userId)
  const { challenge, state, port } = asked
  const body = { challenge, state, port: Number(port) }
  const { redirect } = (await browser.send<{ redirect: string }>('POST', '/console/authorizations', { body })).body
  return { browser, redirect }
}

test('login through the browser stores a token that works until one signs out of the console', async () => {
  const side = await ownersTerminal()
  const { terminal, login, address, asked } = await startLogin(side.api.url)
  expect(address.href).toContain(`${side.api.url}/console/authorize?`)
  const { browser, redirect } = await confirm(side, asked)
  const page = await fetch(redirect)
  expect([page.status, page.headers.get('cache-control')]).toEqual([200, 'no-store'])
  expect(await page.text()).toContain('go back to the terminal')
  expect(await login.ended).toEqual([0, null])
  expect(JSON.parse(login.stdout())).toMatchObject({ url: side.api.url, organization_id: side.orgId })
  expect(await terminal.json('whoami')).toMatchObject({ token: { kind: 'login', user_id: side.owner.userId } })
  // Nothing secret is printed: the address has only the hash of the verifier.
  expect(`${login.stdout()}${login.stderr()}`).not.toContain(new URL(redirect).searchParams.get('code'))

  await browser.send('DELETE', '/console/session')
  expect((await terminal.run('keys', 'list')).code).toBe(3)
})

test('a page that does not know the state, or uses another name for this machine, ends nothing', async () => {
  const side = await ownersTerminal()
  const { terminal, login, asked, local } = await startLogin(side.api.url)
  const mallory = await side.api.person([{ orgId: side.orgId, role: 'member' }])
  const planted = await confirm({ ...side, owner: mallory }, asked)
  const code = new URL(planted.redirect).searchParams.get('code')!
  for (const query of [`code=${code}`, `code=${code}&state=`, `code=${code}&state=${'x'.repeat(22)}`, '']) {
    expect((await fetch(`${local}/?${query}`)).status).toBe(400)
  }
  expect((await fetch(planted.redirect, { method: 'POST' })).status).toBe(400)
  expect((await fetch(planted.redirect.replace('127.0.0.1', 'localhost')).catch(() => ({ status: 400 }))).status).toBe(
    400,
  )
  // It still waits for the right one.
  const { redirect } = await confirm(side, asked)
  expect((await fetch(redirect)).status).toBe(200)
  expect(await login.ended).toEqual([0, null])
  expect(await terminal.json('whoami')).toMatchObject({ token: { user_id: side.owner.userId } })
})

test('a code that the server refuses ends the login with its reason, and stores nothing', async () => {
  const side = await ownersTerminal()
  const { terminal, login, asked } = await startLogin(side.api.url)
  const { redirect } = await confirm(side, { ...asked, challenge: 'x'.repeat(43) })
  expect((await fetch(redirect)).status).toBe(502)
  expect(await login.ended).toEqual([2, null])
  expect(login.stderr()).toContain('A code works once')
  expect((await terminal.run('whoami')).code).toBe(3)
})

test('cancelling in the browser ends the login with a message, but only for who knows the state', async () => {
  const side = await ownersTerminal()
  const { terminal, login, asked, local } = await startLogin(side.api.url)
  expect((await fetch(`${local}/?error=access_denied&state=${'x'.repeat(22)}`)).status).toBe(400)
  const page = await fetch(`${local}/?error=access_denied&state=${asked.state}`)
  expect([page.status, await page.text()]).toEqual([200, expect.stringContaining('You are not logged in.')])
  expect(await login.ended).toEqual([2, null])
  expect(login.stderr()).toContain('You cancelled the login in the browser.')
  expect((await terminal.run('whoami')).code).toBe(3)
})

test('a server without a console is named as the reason', async () => {
  const { run } = await openTerminal()
  const ended = await run('login', '--browser', '--url', 'http://127.0.0.1:1')
  expect([ended.code, ended.stderr]).toEqual([2, expect.stringContaining('cannot be reached')])
  const both = await run('login', '--browser', '--token-stdin', '--url', 'http://127.0.0.1:1')
  expect([both.code, both.stderr]).toEqual([2, expect.stringContaining('exclude each other')])
})
