import { decodeJwt } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { OrgId } from '../../src/lib/ids.ts'
import { removeUser } from '../../src/organizations/rules.ts'
import { captureLog } from '../kit/captured-log.ts'
import { call } from '../kit/client.ts'
import { type Person, startApi, startApiForTest, type TestApi, testOperator } from '../kit/installation.ts'
import { createBrowser, linkFor, signIn, type TokenAnswer, tokenOf } from './browser.ts'

let api: TestApi
let orgId: OrgId
let ada: Person

beforeAll(async () => {
  api = await startApi()
  orgId = await api.organization()
  ada = await api.person([{ orgId, role: 'owner' }])
})
afterAll(() => api.close())

const statusWith = async (token: string) => (await call(`${api.url}/api/v1/organizations`, { token })).status
const operatorStatus = async (token: string) =>
  (await call(`${api.url}/operator/v1/introspect`, { token, body: { token: 'x' } })).status
const codeOf = ({ body }: { body: unknown }) => (body as { code: string }).code

describe('a link', () => {
  test('signs in once, and the cookie is for /console, not for scripts and not for other sites', async () => {
    const link = await linkFor(api, ada.userId)
    const first = await createBrowser(api.url).send('POST', '/console/session', { body: { link } })
    expect(first.status).toBe(204)
    // Without a Path, the browser takes the folder of the request: /console.
    expect(first.headers.get('set-cookie')).toMatch(
      /^keyhook_console=[\w-]{43}; Max-Age=1209600; HttpOnly; SameSite=Strict$/,
    )
    const second = await createBrowser(api.url).send('POST', '/console/session', { body: { link } })
    expect([second.status, codeOf(second), second.headers.get('set-cookie')]).toEqual([
      410,
      'console.link_invalid',
      null,
    ])
  })

  test('is taken by one of many requests at the same time', async () => {
    const link = await linkFor(api, ada.userId)
    const replies = await Promise.all(
      Array.from({ length: 10 }, () => createBrowser(api.url).send('POST', '/console/session', { body: { link } })),
    )
    expect(replies.map(({ status }) => status).sort()).toEqual([204, ...new Array(9).fill(410)])
  })

  test('is refused after ten minutes', async () => {
    const link = await linkFor(api, ada.userId)
    await api.db`update keyhook.console_links set expires_at = expires_at - interval '9 minutes 59 seconds'`
    const other = await linkFor(api, ada.userId)
    await api.db`update keyhook.console_links set expires_at = expires_at - interval '10 minutes'`
    for (const late of [link, other]) {
      expect((await createBrowser(api.url).send('POST', '/console/session', { body: { link: late } })).status).toBe(410)
    }
  })

  test('is stored as a hash', async () => {
    const link = await linkFor(api, ada.userId)
    const rows = await api.db<{ text: string }[]>`select l::text as text from keyhook.console_links l`
    expect(rows.length).toBeGreaterThan(0)
    for (const { text } of rows) {
      expect(text).not.toContain(link)
      expect(text).not.toContain(Buffer.from(link, 'base64url').toString('hex'))
    }
  })
})

describe('a session', () => {
  test('gives login tokens that last five minutes with the tolerance for clocks', async () => {
    const browser = await signIn(api, ada.userId)
    const { status, body, headers } = await tokenOf(browser)
    expect(status).toBe(200)
    expect(headers.get('cache-control')).toBe('no-store')
    expect(body).toMatchObject({ operator: false, user: { id: ada.userId, name: null } })
    expect(body.organizations).toMatchObject([{ id: orgId, role: 'owner' }])
    expect(body.organizations[0]!.permissions).toContain('keys:create')
    const { exp, iat, sub } = decodeJwt(body.token)
    expect(sub).toBe(ada.userId)
    expect(exp! - iat! + 60).toBeLessThanOrEqual(300)
    expect(Math.abs(Date.parse(body.expires_at) - exp! * 1_000)).toBeLessThan(2_000)
    expect(await statusWith(body.token)).toBe(200)
  })

  test('is not accepted by the API: cookies authenticate nothing outside of /console', async () => {
    const { cookie } = await signIn(api, ada.userId)
    const headers = { cookie: cookie!, origin: api.url }
    for (const path of ['/api/v1/organizations', `/platform/v1/organizations/${orgId}/audit-log`]) {
      expect((await call(`${api.url}${path}`, { headers })).status).toBe(401)
    }
    expect((await call(`${api.url}/operator/v1/introspect`, { headers, body: { token: 'x' } })).status).toBe(401)
  })

  test('ends with sign-out, and its tokens with it, on every node', async () => {
    const [browser, other] = [await signIn(api, ada.userId), await signIn(api, ada.userId)]
    const { token } = (await tokenOf(browser)).body
    const { token: others } = (await tokenOf(other)).body
    expect(await statusWith(token)).toBe(200)
    const { cookie } = browser
    const out = await browser.send('DELETE', '/console/session')
    expect([out.status, browser.cookie]).toEqual([204, null])
    expect(await statusWith(token)).toBe(401)
    // Whoever kept the cookie has nothing of it.
    const again = await createBrowser(api.url).send('POST', '/console/token', { headers: { cookie: cookie! } })
    expect([again.status, codeOf(again)]).toEqual([401, 'console.session_required'])
    expect(await statusWith(others)).toBe(200)
  })

  test('ends with all others of the same user, and of nobody else, by signing out everywhere', async () => {
    const grace = await api.person([{ orgId, role: 'member' }])
    const [one, two, hers] = [
      await signIn(api, ada.userId),
      await signIn(api, ada.userId),
      await signIn(api, grace.userId),
    ]
    const tokens = await Promise.all([one, two, hers].map(async (browser) => (await tokenOf(browser)).body.token))
    expect((await one.send('DELETE', '/console/sessions')).status).toBe(204)
    expect(await Promise.all(tokens.map(statusWith))).toEqual([401, 401, 200])
    expect((await tokenOf(two)).status).toBe(401)
  })

  test('ends when the user is removed', async () => {
    const gone = await api.person([{ orgId, role: 'member' }])
    const browser = await signIn(api, gone.userId)
    const { token } = (await tokenOf(browser)).body
    await removeUser(api.db, testOperator, { userId: gone.userId })
    expect([await statusWith(token), (await tokenOf(browser)).status]).toEqual([401, 401])
  })

  test('ends after a day without use and two weeks with it', async () => {
    const browser = await signIn(api, ada.userId)
    const { token } = (await tokenOf(browser)).body
    const { sid } = decodeJwt<{ sid: string }>(token)
    const hoursLeft = async () => {
      const [row] = await api.db<{ hours: number }[]>`
        select extract(epoch from expires_at - now())::float / 3600 as hours from keyhook.console_sessions where id = ${sid}`
      return row!.hours
    }
    expect(await hoursLeft()).toBeCloseTo(24, 1)
    await api.db`update keyhook.console_sessions set created_at = now() - interval '14 days' + interval '1 hour' where id = ${sid}`
    await tokenOf(browser)
    expect(await hoursLeft()).toBeCloseTo(1, 1)
    await api.db`update keyhook.console_sessions set expires_at = now() where id = ${sid}`
    expect([await statusWith(token), (await tokenOf(browser)).status]).toEqual([401, 401])
  })

  test('gets a new secret with every sign-in, whatever cookie was there before', async () => {
    const browser = createBrowser(api.url)
    const planted = { cookie: `keyhook_console=${'x'.repeat(43)}` }
    await browser.send('POST', '/console/session', { body: { link: await linkFor(api, ada.userId) }, headers: planted })
    expect(browser.cookie).not.toBe(planted.cookie)
    expect((await createBrowser(api.url).send('POST', '/console/token', { headers: planted })).status).toBe(401)
    const before = browser.cookie!
    await signIn(api, ada.userId, browser)
    expect((await createBrowser(api.url).send('POST', '/console/token', { headers: { cookie: before } })).status).toBe(
      401,
    )
  })

  test('of the operator gives tokens for /operator/v1 alone, until it ends', async () => {
    const browser = await signIn(api, null)
    const { body } = await tokenOf(browser)
    expect(body).toMatchObject({ operator: true, user: null })
    expect([await operatorStatus(body.token), await statusWith(body.token)]).toEqual([200, 401])
    await browser.send('DELETE', '/console/session')
    expect(await operatorStatus(body.token)).toBe(401)
  })

  test('is only good for the user it belongs to', async () => {
    const grace = await api.person([{ orgId, role: 'owner' }])
    const { sid } = decodeJwt<{ sid: string }>((await tokenOf(await signIn(api, ada.userId))).body.token)
    const issue = (subject: string, operator = false) =>
      api.issuer.issue({ subject, ttlSeconds: 60, sessionId: sid, operator })
    expect(await statusWith(await issue(ada.userId))).toBe(200)
    expect(await statusWith(await issue(grace.userId))).toBe(401)
    expect(await operatorStatus(await issue('operator', true))).toBe(401)
  })
})

describe('a request that a page of another site makes', () => {
  const requests = [
    ['POST', '/console/token'],
    ['POST', '/console/session'],
    ['DELETE', '/console/session'],
    ['DELETE', '/console/sessions'],
  ] as const

  test.each<[from: string, headers: Record<string, string>]>([
    ['another origin', { origin: 'https://evil.example' }],
    ['a sandboxed page', { origin: 'null' }],
    ['another port of this host', { origin: 'http://127.0.0.1:1' }],
    ['a page of the same site but another origin', { 'sec-fetch-site': 'same-site' }],
    ['no page that we know', { origin: '' }],
  ])('from %s is refused, and changes nothing', async (_, headers) => {
    const browser = await signIn(api, ada.userId)
    const { token } = (await tokenOf(browser)).body
    for (const [method, path] of requests) {
      const body =
        method === 'POST' && path === '/console/session' ? { link: await linkFor(api, ada.userId) } : undefined
      const reply = await browser.send(method, path, { body, headers })
      expect([path, reply.status, codeOf(reply)]).toEqual([path, 403, 'console.origin_refused'])
      expect(reply.headers.get('set-cookie')).toBeNull()
    }
    expect(await statusWith(token)).toBe(200)
  })

  test('is refused without an Origin header', async () => {
    const { cookie } = await signIn(api, ada.userId)
    expect((await call(`${api.url}/console/token`, { method: 'POST', headers: { cookie: cookie! } })).status).toBe(403)
  })
})

test('behind a proxy with TLS and a path prefix, its address is accepted and the cookie is for https', async () => {
  const behind = await startApiForTest({ KEYHOOK_PUBLIC_URL: 'https://keyhook.example/db/' })
  const { userId } = await behind.person()
  const browser = createBrowser(behind.url, 'https://keyhook.example')
  const reply = await browser.send('POST', '/console/session', { body: { link: await linkFor(behind, userId) } })
  expect([reply.status, reply.headers.get('set-cookie')]).toEqual([204, expect.stringMatching(/; Secure/)])
  expect((await tokenOf(browser)).status).toBe(200)
  const evil = createBrowser(behind.url, 'https://keyhook.example.evil')
  expect((await tokenOf(evil)).status).toBe(403)
})

test('sign-in and sign-out are logged without any secret', async () => {
  const { log, text, lines } = captureLog()
  const logged = await startApiForTest({}, log)
  const { userId } = await logged.person()
  const link = await linkFor(logged, userId)
  const browser = createBrowser(logged.url)
  await browser.send('POST', '/console/session', { body: { link } })
  const secret = browser.cookie!.split('=')[1]!
  const { token } = (await browser.send<TokenAnswer>('POST', '/console/token')).body
  await browser.send('DELETE', '/console/session')
  const told = lines().filter(({ msg }) => String(msg).startsWith('console.'))
  expect(told.map(({ msg, userId: who }) => [msg, who])).toEqual([
    ['console.signed_in', userId],
    ['console.signed_out', userId],
  ])
  for (const one of [link, secret, token]) expect(text()).not.toContain(one)
})
