import { afterAll, beforeAll, expect, test } from 'vitest'
import type { UserId } from '../../src/lib/ids.ts'
import { createUser, removeUser, setMember } from '../../src/organizations/rules.ts'
import { startApi, type TestApi, testOperator } from '../kit/installation.ts'
import {
  audience,
  consoleUrl,
  newSigningKey,
  person,
  type RealIssuer,
  startRealIssuer,
} from '../login/support/real-issuer.ts'
import { createBrowser, tokenOf } from './browser.ts'

/*
 * People sign in to the console at a real OpenID issuer. The browser follows every redirect by hand, behind a proxy with a prefix.
 */

let real: RealIssuer
let api: TestApi
let ada: UserId

beforeAll(async () => {
  real = await startRealIssuer({ signingKey: await newSigningKey() })
  api = await startApi({
    KEYHOOK_OIDC_ISSUER: real.issuer,
    KEYHOOK_OIDC_AUDIENCE: audience,
    KEYHOOK_OIDC_CLIENT_ID: 'web',
    KEYHOOK_OIDC_CLIENT_SECRET: 'web-secret',
    KEYHOOK_PUBLIC_URL: consoleUrl,
  })
  const known = { email: person.email, name: 'Ada', subject: person.subject }
  ada = (await api.db.begin((tx) => createUser(tx, known))).id
  await setMember(api.db, testOperator, { orgId: await api.organization(), userId: ada, role: 'admin' })
})
afterAll(async () => {
  await api.close()
  await real.stop()
})

type Jar = Map<string, string>

/** One request of a browser, with the cookies of that host. */
async function visit(url: URL, jar: Jar): Promise<Response> {
  const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ')
  const response = await fetch(url, { redirect: 'manual', headers: { cookie } })
  for (const line of response.headers.getSetCookie()) {
    const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)!
    if (value === '') jar.delete(name!)
    else jar.set(name!, value!)
  }
  return response
}

/** Up to the callback, which is not sent yet. */
async function logIn(ours: Jar): Promise<{ first: Response; callback: URL }> {
  const first = await visit(new URL(`${api.url}/console/login`), ours)
  return { first, callback: await throughIssuer(first.headers.get('location')!) }
}

/** The person logs in at the issuer. Returns the callback. */
async function throughIssuer(start: string): Promise<URL> {
  const theirs: Jar = new Map()
  let url = new URL(start)
  while (!url.href.startsWith(`${consoleUrl}/`)) {
    const response = await visit(url, theirs)
    url = new URL(response.headers.get('location') ?? `${consoleUrl}/stopped?${await response.text()}`, url)
  }
  return new URL(`${api.url}/console/callback${url.search}`)
}

test('a person signs in with the code flow: PKCE, state, nonce, and a cookie for https only', async () => {
  const ours: Jar = new Map()
  const { first, callback } = await logIn(ours)
  const asked = new URL(first.headers.get('location')!).searchParams
  expect(Object.fromEntries(asked)).toMatchObject({
    response_type: 'code',
    code_challenge_method: 'S256',
    redirect_uri: `${consoleUrl}/console/callback`,
    scope: 'openid email',
  })
  for (const name of ['state', 'nonce', 'code_challenge']) expect(asked.get(name)).toMatch(/^[\w-]{43}$/)
  expect(first.headers.get('set-cookie')).toMatch(/^keyhook_login=.*; HttpOnly; .*SameSite=Lax/i)
  expect(first.headers.get('set-cookie')).not.toContain(asked.get('state'))

  const done = await visit(callback, ours)
  expect([done.status, done.headers.get('location')]).toEqual([302, './'])
  const [session] = done.headers.getSetCookie().filter((line) => line.startsWith('keyhook_console='))
  expect(session).toMatch(/HttpOnly/)
  expect(session).toMatch(/Secure/)
  expect([...ours.keys()]).toEqual(['keyhook_console'])

  const browser = createBrowser(api.url, new URL(consoleUrl).origin)
  const token = await browser.send<{ user: { id: string } }>('POST', '/console/token', {
    headers: { cookie: session!.split(';')[0]! },
  })
  expect(token.body.user.id).toBe(ada)
  expect((await tokenOf(browser)).status).toBe(401)

  // The code and the state were used, and the browser has forgotten them.
  const again = await visit(callback, ours)
  expect(again.headers.get('location')).toBe('sign-in?error=refused')
})

test.each<[what: string, change: (callback: URL, ours: Jar) => void]>([
  ['another state', (callback) => callback.searchParams.set('state', 'x'.repeat(43))],
  ['no state', (callback) => callback.searchParams.delete('state')],
  ['another code', (callback) => callback.searchParams.set('code', 'x'.repeat(43))],
  ['the browser of somebody else', (_, ours) => ours.clear()],
  ['a changed cookie', (_, ours) => ours.set('keyhook_login', `${ours.get('keyhook_login')!.slice(0, -6)}AAAAAA`)],
  [
    'a refusal of the issuer',
    (callback) => {
      callback.searchParams.delete('code')
      callback.searchParams.set('error', 'access_denied')
    },
  ],
])('a callback with %s signs nobody in', async (_, change) => {
  const ours: Jar = new Map()
  const { callback } = await logIn(ours)
  change(callback, ours)
  const done = await visit(callback, ours)
  expect([done.status, done.headers.get('location')]).toEqual([302, 'sign-in?error=refused'])
  expect([...ours.keys()]).toEqual([])
})

/** As a page does it that wants to be shown again. */
const askToReturn = (returnTo: unknown, origin = new URL(consoleUrl).origin) =>
  fetch(`${api.url}/console/login`, {
    method: 'POST',
    headers: { origin, 'content-type': 'application/json' },
    body: JSON.stringify({ return_to: returnTo }),
  })

test.each([
  `invitation#${'s'.repeat(43)}`,
  'authorize?port=40000&challenge=abc&state=x-y_z&machine=laptop',
  'org_01m7n2bk0jfqevvcnkz350c026/deliveries?status=%22failed%22',
])('the page that asked is shown again after the login, with its secret: %s', async (returnTo) => {
  const asked = await askToReturn(returnTo)
  const ours: Jar = new Map()
  const [, name, value] = /^([^=]+)=([^;]*)/.exec(asked.headers.get('set-cookie')!)!
  ours.set(name!, value!)
  const { url } = (await asked.json()) as { url: string }
  // Neither the issuer nor a log of a server sees it.
  expect(url).not.toContain('s'.repeat(43))
  expect(asked.headers.get('set-cookie')).not.toContain('s'.repeat(43))
  const done = await visit(await throughIssuer(url), ours)
  expect([done.status, done.headers.get('location')]).toEqual([302, `./${returnTo}`])
  expect([...ours.keys()]).toEqual(['keyhook_console'])
})

test('no other place than a page of the console is accepted to return to, and no other site may ask', async () => {
  for (const place of [
    ...['https://evil.example', '//evil.example', '/\\\\evil.example', '\\evil.example', 'javascript:alert(1)'],
    ...['../admin', './/evil.example', 'a/../../b', 'x\r\nSet-Cookie: a=b', 'x?\u00e9', '', null, 'x'.repeat(501)],
  ]) {
    const reply = await askToReturn(place)
    expect([place, reply.status, reply.headers.get('set-cookie')]).toEqual([place, 422, null])
  }
  for (const origin of ['https://evil.example', 'null']) {
    const reply = await askToReturn('authorize', origin)
    expect([reply.status, reply.headers.get('set-cookie')]).toEqual([403, null])
  }
})

test('a person who is no user here is told so', async () => {
  await removeUser(api.db, testOperator, { userId: ada })
  const ours: Jar = new Map()
  const { callback } = await logIn(ours)
  const done = await visit(callback, ours)
  expect(done.headers.get('location')).toBe('sign-in?error=unknown_user')
})

test('while the issuer is down the answer is 503, and the console says that it has one', async () => {
  const config = await fetch(`${api.url}/console/config.json`)
  expect(await config.json()).toMatchObject({ openid: true, passkeys: null })
  const down = await startApi({
    KEYHOOK_OIDC_ISSUER: 'http://127.0.0.1:1',
    KEYHOOK_OIDC_AUDIENCE: audience,
    KEYHOOK_OIDC_CLIENT_ID: 'web',
    KEYHOOK_PUBLIC_URL: consoleUrl,
  })
  const reply = await fetch(`${down.url}/console/login`, { redirect: 'manual' })
  expect(reply.status).toBe(503)
  await down.close()
})
