import { describe, expect, test } from 'vitest'
import { addressWithPasskeys, passkeysMissing, relyingPartyOf } from '../../src/login/relying-party.ts'
import { startApiForTest } from '../kit/installation.ts'
import { createBrowser, linkFor } from './browser.ts'
import { createAuthenticator } from './support/authenticator.ts'
import { add, atLocalhost, options, signInWith } from './support/passkeys.ts'

type Offer = { openid: boolean; passkeys: { missing: string | null; elsewhere: string | null } | null }

describe('where passkeys work', () => {
  const needs = 'Passkeys need HTTPS with a domain name, or http://localhost; this page is open at '
  const example = 'https://keyhook.example.com'

  test.each<[publicUrl: string | null, origin: string, missing: string | null, elsewhere: string | null]>([
    [null, 'http://localhost:8080', null, null],
    [null, 'http://127.0.0.1:8080', `${needs}http://127.0.0.1:8080.`, 'http://localhost:8080/console/'],
    [null, 'http://[::1]:8080', `${needs}http://[::1]:8080.`, 'http://localhost:8080/console/'],
    [null, 'http://10.0.0.5:8080', `${needs}http://10.0.0.5:8080.`, null],
    [null, 'http://keyhook.lan:8080', `${needs}http://keyhook.lan:8080.`, null],
    [null, 'https://10.0.0.5', `${needs}https://10.0.0.5.`, null],
    // Another program of this machine must not pass on what it was answered.
    [null, 'http://localhost:3000', expect.stringContaining('KEYHOOK_PUBLIC_URL'), null],
    [null, example, expect.stringContaining('KEYHOOK_PUBLIC_URL'), null],
    [`${example}/db`, example, null, null],
    [
      `${example}/db`,
      'http://localhost:8080',
      `Passkeys work at ${example}; this page is open at http://localhost:8080.`,
      `${example}/db/console/`,
    ],
    [
      `${example}/db`,
      'https://other.example.com',
      `Passkeys work at ${example}; this page is open at https://other.example.com.`,
      `${example}/db/console/`,
    ],
    ['http://10.0.0.5:8080', 'http://localhost:8080', null, null],
    ['http://10.0.0.5:8080', 'http://10.0.0.5:8080', `${needs}http://10.0.0.5:8080.`, null],
    ['http://localhost:9000', 'http://localhost:9000', null, null],
  ])('with KEYHOOK_PUBLIC_URL %s a page at %s: %s', (publicUrl, origin, missing, elsewhere) => {
    const party = relyingPartyOf(publicUrl, 8080)
    expect(passkeysMissing(party, origin)).toEqual(missing)
    if (missing !== null) expect(addressWithPasskeys(party, origin)).toBe(elsewhere)
  })

  test.each(['data:x', 'x', 'null', ''])('a page that says it is at %j is answered', async (origin) => {
    const api = await startApiForTest()
    const { status } = await createBrowser(api.url).send('GET', `/console/config.json?origin=${origin}`)
    expect(status).toBe(200)
  })

  test('a page at an IP address learns what is missing, and is refused', async () => {
    const api = await startApiForTest()
    const browser = createBrowser(api.url)
    const { body } = await browser.send<Offer>('GET', `/console/config.json?origin=${api.url}`)
    const missing = `${needs}${api.url}.`
    expect(body.passkeys).toEqual({ missing, elsewhere: `${atLocalhost(api.url)}/console/` })
    const reply = await browser.send('POST', '/console/passkey-challenge')
    expect([reply.status, reply.text]).toEqual([403, expect.stringContaining(missing)])
  })

  test('behind a proxy they belong to its host, whatever path it adds', async () => {
    const api = await startApiForTest({ KEYHOOK_PUBLIC_URL: `${example}/db` })
    const { userId } = await api.person()
    const browser = createBrowser(api.url, example)
    const authenticator = createAuthenticator()
    await browser.send('POST', '/console/session', { body: { link: await linkFor(api, userId) } })
    const kept = (await options(browser, 'passkey-options')).headers.get('set-cookie')
    expect(kept).toMatch(/^keyhook_passkey=[\w.-]+; Max-Age=300; HttpOnly; Secure; SameSite=Strict$/)
    expect((await add(browser, authenticator)).status).toBe(201)
    expect((await signInWith(createBrowser(api.url, example), authenticator)).status).toBe(204)
    expect((await options(createBrowser(api.url, 'https://evil.example'), 'passkey-challenge')).status).toBe(403)
  })
})

describe('where an OpenID issuer decides who signs in', () => {
  const issuer = { KEYHOOK_OIDC_ISSUER: 'http://127.0.0.1:1', KEYHOOK_OIDC_AUDIENCE: 'x' }

  test.each<[environment: Record<string, string>, isOn: boolean]>([
    [{}, true],
    [{ KEYHOOK_PASSKEYS: 'off' }, false],
    [issuer, false],
    [{ ...issuer, KEYHOOK_PASSKEYS: 'on' }, true],
  ])('with %o passkeys are offered and accepted: %s', async (environment, isOn) => {
    const api = await startApiForTest(environment)
    const url = atLocalhost(api.url)
    const { userId } = await api.person()
    const browser = createBrowser(url)
    await browser.send('POST', '/console/session', { body: { link: await linkFor(api, userId) } })
    const { body } = await browser.send<Offer>('GET', `/console/config.json?origin=${url}`)
    expect(body.passkeys).toEqual(isOn ? { missing: null, elsewhere: null } : null)
    const { offers_passkey } = (await browser.send<{ offers_passkey: boolean }>('POST', '/console/token')).body
    expect(offers_passkey).toBe(isOn)
    const status = isOn ? 200 : 404
    expect((await options(browser, 'passkey-challenge')).status).toBe(status)
    expect((await options(browser, 'passkey-options')).status).toBe(status)
  })
})
