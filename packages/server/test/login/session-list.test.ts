import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deviceName } from '../../src/login/user-agent.ts'
import { type Person, startApi, startApiForTest, type TestApi } from '../kit/installation.ts'
import { type Browser, createBrowser, linkFor, signIn, tokenOf } from './browser.ts'
import { createAuthenticator } from './support/authenticator.ts'
import { add, atLocalhost, signInWith } from './support/passkeys.ts'

let api: TestApi
let ada: Person

beforeAll(async () => {
  api = await startApi()
  ada = await api.person([{ orgId: await api.organization(), role: 'owner' }])
})
afterAll(() => api.close())

type Listed = {
  id: string
  current: boolean
  way: string
  address: string
  device: string
  created_at: string
  last_used_at: string
}
const listed = async (browser: Browser) => (await browser.send<Listed[]>('GET', '/console/sessions')).body
const isOpen = async (browser: Browser) => (await tokenOf(browser)).status === 200

describe('the list of sessions', () => {
  test('has place, device, way and time of one’s own, and says which one is this', async () => {
    const { userId } = await api.person()
    const link = await linkFor(api, userId)
    const browser = createBrowser(atLocalhost(api.url))
    const firefox = { 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:147.0) Gecko/20100101 Firefox/147.0' }
    await browser.send('POST', '/console/session', { body: { link }, headers: firefox })
    const authenticator = createAuthenticator()
    await add(browser, authenticator)
    const phone = createBrowser(atLocalhost(api.url))
    await signInWith(phone, authenticator)
    await signIn(api, ada.userId)

    const sessions = await listed(browser)
    expect(sessions.map(({ current, way, address }) => [current, way, address]).sort()).toEqual([
      [false, 'passkey', '127.0.0.1'],
      [true, 'link', '127.0.0.1'],
    ])
    const mine = sessions.find(({ current }) => current)!
    expect(mine.device).toBe('Firefox on Linux')
    expect(Math.abs(Date.parse(mine.created_at) - Date.now())).toBeLessThan(60_000)
    await api.db`update keyhook.console_sessions set used_at = now() - interval '1 hour' where id = ${mine.id}`
    await tokenOf(browser)
    const [used] = (await listed(phone)).filter(({ id }) => id === mine.id)
    expect(Date.now() - Date.parse(used!.last_used_at)).toBeLessThan(60_000)
  })

  test('names the address of the browser and not that of a trusted proxy', async () => {
    const behind = await startApiForTest({ KEYHOOK_TRUSTED_PROXIES: '127.0.0.1' })
    const { userId } = await behind.person()
    const browser = createBrowser(behind.url)
    const body = { link: await linkFor(behind, userId) }
    await browser.send('POST', '/console/session', { body, headers: { 'x-forwarded-for': '198.51.100.7' } })
    expect((await listed(browser))[0]!.address).toBe('198.51.100.7')
  })

  test('is refused without a session, and is that of the operator for the operator', async () => {
    expect((await createBrowser(api.url).send('GET', '/console/sessions')).status).toBe(401)
    const [one, two] = [await signIn(api, null), await signIn(api, null)]
    expect((await listed(one)).length).toBe(2)
    await one.send('DELETE', '/console/other-sessions')
    expect([await isOpen(one), await isOpen(two), (await listed(one)).length]).toEqual([true, false, 1])
  })

  test('keeps as much of a User-Agent as is needed', async () => {
    const { userId } = await api.person()
    const browser = createBrowser(api.url)
    const headers = { 'user-agent': 'x'.repeat(5_000) }
    await browser.send('POST', '/console/session', { body: { link: await linkFor(api, userId) }, headers })
    const [row] =
      await api.db`select length(user_agent) as length from keyhook.console_sessions where user_id = ${userId}`
    expect(row).toEqual({ length: 300 })
    expect((await listed(browser))[0]!.device).toBe('Unknown browser')
  })
})

describe('a session that somebody signs out from another one', () => {
  test('ends at once with its tokens, and the others stay', async () => {
    const { userId } = await api.person()
    const [mine, theirs, third] = [await signIn(api, userId), await signIn(api, userId), await signIn(api, userId)]
    const { token } = (await tokenOf(theirs)).body
    const id = (await listed(theirs)).find(({ current }) => current)!.id
    expect((await mine.send('DELETE', `/console/sessions/${id}`)).status).toBe(204)
    const headers = { authorization: `Bearer ${token}` }
    expect((await fetch(`${api.url}/api/v1/organizations`, { headers })).status).toBe(401)
    expect([await isOpen(mine), await isOpen(theirs), await isOpen(third)]).toEqual([true, false, true])
    expect((await mine.send('DELETE', `/console/sessions/${id}`)).status).toBe(404)
  })

  test('is never that of somebody else, nor ended by a page of another site', async () => {
    const other = await signIn(api, (await api.person()).userId)
    const [{ id }] = (await listed(other)) as [Listed]
    const mine = await signIn(api, ada.userId)
    expect((await mine.send('DELETE', `/console/sessions/${id}`)).status).toBe(404)
    expect((await mine.send('DELETE', '/console/sessions/x')).status).toBe(404)
    await mine.send('DELETE', '/console/other-sessions')
    const headers = { origin: 'https://evil.example' }
    expect((await other.send('DELETE', `/console/sessions/${id}`, { headers })).status).toBe(403)
    expect((await other.send('DELETE', '/console/other-sessions', { headers })).status).toBe(403)
    expect(await isOpen(other)).toBe(true)
  })

  test('is one of all others, which end together', async () => {
    const { userId } = await api.person()
    const [mine, two, three] = [await signIn(api, userId), await signIn(api, userId), await signIn(api, userId)]
    expect((await mine.send('DELETE', '/console/other-sessions')).status).toBe(204)
    expect([await isOpen(mine), await isOpen(two), await isOpen(three)]).toEqual([true, false, false])
  })
})

test.each([
  [null, 'Unknown browser'],
  ['curl/8.5.0', 'Unknown browser'],
  ['<script>alert(1)</script> Windows', 'Unknown browser on Windows'],
  [
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36',
    'Chrome on Windows',
  ],
  [
    'Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0',
    'Edge on Windows',
  ],
  [
    'Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.4 Safari/605.1.15',
    'Safari on macOS',
  ],
  [
    'Mozilla/5.0 (iPhone; CPU iPhone OS 18_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/140.0.0.0 Mobile/15E148 Safari/604.1',
    'Chrome on iPhone',
  ],
  [
    'Mozilla/5.0 (Linux; Android 15; SM-S931B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36',
    'Samsung Internet on Android',
  ],
  ['Mozilla/5.0 (X11; Linux x86_64; rv:147.0) Gecko/20100101 Firefox/147.0', 'Firefox on Linux'],
])('the User-Agent %s is shown as "%s"', (header, shown) => expect(deviceName(header)).toBe(shown))
