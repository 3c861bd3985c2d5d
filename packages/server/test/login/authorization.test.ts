import { createHash, randomBytes } from 'node:crypto'
import { decodeJwt } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { removeUser } from '../../src/organizations/rules.ts'
import { captureLog } from '../kit/captured-log.ts'
import { call } from '../kit/client.ts'
import { type Person, startApi, startApiForTest, type TestApi, testOperator } from '../kit/installation.ts'
import { type Browser, createBrowser, signIn } from './browser.ts'

/*
 * `keyhook login` through the browser. The terminal has a verifier; the browser gets a code and brings it to the terminal.
 */

let api: TestApi
let ada: Person

beforeAll(async () => {
  api = await startApi()
  ada = await api.person([{ orgId: await api.organization(), role: 'owner' }])
})
afterAll(() => api.close())

function newTerminal() {
  const verifier = randomBytes(32).toString('base64url')
  const challenge = createHash('sha256').update(verifier).digest('base64url')
  return { verifier, asked: { challenge, state: randomBytes(16).toString('base64url'), port: 40_000 } }
}

const confirm = (browser: Browser, body: object, headers: Record<string, string> = {}) =>
  browser.send<{ redirect: string; code?: string }>('POST', '/console/authorizations', { body, headers })

const codeIn = (redirect: string): string => new URL(redirect).searchParams.get('code')!

/** As the terminal does it: without a cookie, and without an Origin. */
const exchange = (body: object, url = api.url) =>
  call<{ token: string; expires_at: string; code?: string }>(`${url}/console/authorizations/token`, { body })

const statusWith = async (token: string) => (await call(`${api.url}/api/v1/organizations`, { token })).status

async function confirmed(userId = ada.userId) {
  const browser = await signIn(api, userId)
  const { verifier, asked } = newTerminal()
  const { body } = await confirm(browser, asked)
  return { browser, verifier, code: codeIn(body.redirect) }
}

describe('a person who confirms in the console', () => {
  test('gives the terminal a login token of twelve hours, by way of a program on the same machine', async () => {
    const browser = await signIn(api, ada.userId)
    const { verifier, asked } = newTerminal()
    const reply = await confirm(browser, asked)
    expect([reply.status, reply.headers.get('cache-control')]).toEqual([200, 'no-store'])
    const redirect = new URL(reply.body.redirect)
    expect([redirect.origin, redirect.pathname]).toEqual(['http://127.0.0.1:40000', '/'])
    expect(redirect.searchParams.get('state')).toBe(asked.state)

    const { status, body, headers } = await exchange({ code: redirect.searchParams.get('code'), verifier })
    expect([status, headers.get('cache-control'), headers.get('set-cookie')]).toEqual([200, 'no-store', null])
    const { sub, iat, exp } = decodeJwt(body.token)
    expect([sub, exp! - iat!]).toEqual([ada.userId, 12 * 3_600])
    expect(Math.abs(Date.parse(body.expires_at) - exp! * 1_000)).toBeLessThan(60_000)
    expect(await statusWith(body.token)).toBe(200)
  })

  test('ends that token by signing out, here or everywhere', async () => {
    for (const path of ['/console/session', '/console/sessions']) {
      const { browser, verifier, code } = await confirmed()
      const { token } = (await exchange({ code, verifier })).body
      expect(await statusWith(token)).toBe(200)
      await browser.send('DELETE', path)
      expect(await statusWith(token)).toBe(401)
    }
  })
})

describe('a code', () => {
  const refused = async (body: object) => {
    const reply = await exchange(body)
    expect([reply.status, reply.body.code, reply.body.token]).toEqual([410, 'console.link_invalid', undefined])
  }

  test('works once, also for many requests at the same time', async () => {
    const { verifier, code } = await confirmed()
    const replies = await Promise.all(Array.from({ length: 10 }, () => exchange({ code, verifier })))
    expect(replies.map(({ status }) => status).sort()).toEqual([200, ...new Array(9).fill(410)])
  })

  test('that was intercepted is worth nothing without the verifier, and is lost by trying', async () => {
    const { verifier, code } = await confirmed()
    await refused({ code, verifier: newTerminal().verifier })
    await refused({ code, verifier })
  })

  test('of somebody else does not work with the verifier of this terminal', async () => {
    const [mine, theirs] = [await confirmed(), await confirmed()]
    await refused({ code: theirs.code, verifier: mine.verifier })
  })

  test('is refused after a minute', async () => {
    const { verifier, code } = await confirmed()
    const [left] = await api.db<{ seconds: number }[]>`
      select extract(epoch from max(expires_at) - now())::float as seconds from keyhook.console_codes`
    expect(left!.seconds).toBeLessThanOrEqual(60)
    await api.db`update keyhook.console_codes set expires_at = now()`
    await refused({ code, verifier })
  })

  test('is refused after sign-out, and after the user was removed', async () => {
    const { browser, verifier, code } = await confirmed()
    await browser.send('DELETE', '/console/session')
    await refused({ code, verifier })
    const gone = await api.person()
    const theirs = await confirmed(gone.userId)
    await removeUser(api.db, testOperator, { userId: gone.userId })
    await refused({ code: theirs.code, verifier: theirs.verifier })
  })

  test('is stored as a hash, and is in no log, nor is the verifier or the token', async () => {
    const { log, text, lines } = captureLog()
    const logged = await startApiForTest({}, log)
    const { userId } = await logged.person()
    const { verifier, asked } = newTerminal()
    const { body } = await confirm(await signIn(logged, userId), asked)
    const code = codeIn(body.redirect)
    const rows = await logged.db<{ text: string }[]>`select c::text as text from keyhook.console_codes c`
    expect(rows).toHaveLength(1)
    expect(rows[0]!.text).not.toContain(Buffer.from(code, 'base64url').toString('hex'))
    const { token } = (await exchange({ code, verifier }, logged.url)).body
    expect(lines().filter(({ msg }) => msg === 'console.terminal_signed_in')).toMatchObject([{ userId }])
    for (const secret of [code, verifier, token]) expect(text()).not.toContain(secret)
  })
})

describe('no code is given', () => {
  test.each<[to: string, headers: Record<string, string>]>([
    ['a page of another site', { origin: 'https://evil.example' }],
    ['a sandboxed page', { origin: 'null' }],
    ['a request without a page', { origin: '' }],
    ['another origin of the same site', { 'sec-fetch-site': 'same-site' }],
  ])('to %s', async (_, headers) => {
    const reply = await confirm(await signIn(api, ada.userId), newTerminal().asked, headers)
    expect([reply.status, reply.body.code]).toEqual([403, 'console.origin_refused'])
  })

  test('without a session, and for the operator', async () => {
    for (const browser of [createBrowser(api.url), await signIn(api, null)]) {
      const reply = await confirm(browser, newTerminal().asked)
      expect([reply.status, reply.body.code]).toEqual([401, 'console.session_required'])
    }
  })

  test('to an address that is not a port of this machine', async () => {
    const browser = await signIn(api, ada.userId)
    const { asked } = newTerminal()
    for (const port of [80, 0, 65_536, '40000@evil.example', '1/../', 40_000.5]) {
      expect((await confirm(browser, { ...asked, port })).status, String(port)).toBe(422)
    }
    for (const state of ['', 'short', `${'x'.repeat(30)}\r\nSet-Cookie: a=b`, `${'x'.repeat(30)}&code=mine`]) {
      expect((await confirm(browser, { ...asked, state })).status, state).toBe(422)
    }
    for (const challenge of ['', 'x'.repeat(42), 'x'.repeat(44), `${'x'.repeat(42)}=`]) {
      expect((await confirm(browser, { ...asked, challenge })).status, challenge).toBe(422)
    }
    expect((await confirm(browser, { ...asked, redirect: 'https://evil.example' })).status).toBe(422)
  })
})
