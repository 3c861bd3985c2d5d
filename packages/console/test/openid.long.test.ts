import { request as httpRequest } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { chromium } from 'playwright-core'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createUser, setMember } from '../../server/src/organizations/rules.ts'
import { certificate } from '../../server/test/delivery/support/receiver.ts'
import { startApi, testOperator } from '../../server/test/kit/installation.ts'
import { audience, newSigningKey, person, startRealIssuer } from '../../server/test/login/support/real-issuer.ts'
import { builtConsole } from './support/built-console.ts'
import { chromiumPath } from './support/chromium.ts'

/** A proxy that ends TLS and adds a path. Its target is known after its own address. */
async function startProxy() {
  let target = ''
  const server = createServer(certificate('receiver'), (incoming, outgoing) => {
    const headers = { ...incoming.headers, 'x-forwarded-proto': 'https', 'x-forwarded-for': '127.0.0.1' }
    const url = `${target}${incoming.url!.replace(/^\/db/, '')}`
    const upstream = httpRequest(url, { method: incoming.method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(outgoing)
    })
    incoming.pipe(upstream)
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  onTestFinished(() => void server.close().closeAllConnections())
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}/db`,
    leadTo(url: string) {
      target = url
    },
  }
}

/** A server behind the proxy, whose people sign in at a real OpenID issuer. */
async function start() {
  const proxy = await startProxy()
  const issuer = await startRealIssuer({ signingKey: await newSigningKey(), consoleUrl: proxy.url })
  onTestFinished(issuer.stop)
  const environment = {
    KEYHOOK_OIDC_ISSUER: issuer.issuer,
    KEYHOOK_OIDC_AUDIENCE: audience,
    KEYHOOK_OIDC_CLIENT_ID: 'web',
    KEYHOOK_OIDC_CLIENT_SECRET: 'web-secret',
    KEYHOOK_PUBLIC_URL: proxy.url,
  }
  const api = await startApi(environment, undefined, await builtConsole())
  onTestFinished(() => api.close())
  proxy.leadTo(api.url)
  const browser = await chromium.launch({ executablePath: chromiumPath!, args: ['--no-sandbox'] })
  onTestFinished(() => browser.close())
  const context = await browser.newContext({ ignoreHTTPSErrors: true })
  const page = await context.newPage()
  page.setDefaultTimeout(40_000)
  return { api, page, url: proxy.url }
}

describe.skipIf(chromiumPath === undefined)('with an OpenID issuer, behind a proxy with TLS and a path', () => {
  test('somebody signs in there, comes back, and signs out everywhere', async () => {
    const { api, page, url } = await start()
    const { id } = await api.db.begin((tx) =>
      createUser(tx, { email: person.email, name: 'Ada', subject: person.subject }),
    )
    const orgId = await api.organization()
    await setMember(api.db, testOperator, { orgId, userId: id, role: 'admin' })

    await page.goto(`${url}/console/`)
    await page.getByRole('link', { name: 'Continue with single sign-on' }).click()
    await page.waitForURL(`${url}/console/${orgId}`)
    await page.getByRole('heading', { name: 'Acme', level: 1 }).waitFor()
    const cookies = await page.context().cookies(`${url}/console`)
    const session = cookies.filter(({ path }) => path.startsWith('/db/console'))
    expect(session.length).toBeGreaterThan(0)
    for (const cookie of session) expect(cookie).toMatchObject({ secure: true, httpOnly: true })

    await page.getByRole('button', { name: /^Account/ }).click()
    await page.getByRole('menuitem', { name: 'Sign out everywhere' }).click()
    await page.getByRole('heading', { name: 'Sign in to Keyhook' }).waitFor()
    await page.goBack()
    await page.getByRole('heading', { name: 'Sign in to Keyhook' }).waitFor()
  })

  test('an invitation is still there after signing in, and nothing of it is left in the browser', async () => {
    const { api, page, url } = await start()
    await api.db.begin((tx) => createUser(tx, { email: person.email, name: 'Ada', subject: person.subject }))
    const orgId = await api.organization()
    const owner = await api.person([{ orgId, role: 'owner' }])
    const reply = await fetch(`${api.url}/platform/v1/organizations/${orgId}/invitations`, {
      method: 'POST',
      headers: { authorization: `Bearer ${owner.token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ email: person.email, role: 'member' }),
    })
    const { link } = (await reply.json()) as { link: string }

    await page.goto(link)
    await page.getByRole('heading', { name: 'Join Acme' }).waitFor()
    await page.getByRole('link', { name: 'Continue with single sign-on' }).click()
    await page.getByText('You join as Ada.').waitFor()
    expect(page.url()).toBe(`${url}/console/invitation`)
    await page.getByRole('button', { name: 'Accept invitation' }).click()
    await page.waitForURL(`${url}/console/${orgId}`)
    expect(await page.evaluate('[localStorage.length, sessionStorage.length]')).toEqual([0, 0])
  })

  test('somebody without a user is told so', async () => {
    const { page, url } = await start()
    await page.goto(`${url}/console/`)
    await page.getByRole('link', { name: 'Continue with single sign-on' }).click()
    await page.getByText('but Keyhook has no user for you').waitFor()
    expect(page.url()).toBe(`${url}/console/sign-in?error=unknown_user`)
  })
})
