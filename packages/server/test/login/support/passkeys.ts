import type { Browser } from '../browser.ts'
import type { Authenticator } from './authenticator.ts'

/** Passkeys belong to a name, and no address can have one. */
export const atLocalhost = (url: string): string => url.replace('127.0.0.1', 'localhost')

type Options = {
  challenge: string
  rpId: string
  rp: { id: string }
  user: { id: string }
  allowCredentials?: object[]
  excludeCredentials: { id: string }[]
}

/** What the browser is to ask the authenticator for. It keeps the challenge in a cookie. */
export const options = (browser: Browser, name: 'passkey-challenge' | 'passkey-options') =>
  browser.send<Options>('POST', `/console/${name}`)

export async function add(browser: Browser, authenticator: Authenticator, name = 'Test') {
  const { body } = await options(browser, 'passkey-options')
  const answer = authenticator.create(body, { origin: browser.origin })
  return browser.send<{ id: string; name: string }>('POST', '/console/passkeys', { body: { name, answer } })
}

export async function answerTo(browser: Browser, authenticator: Authenticator, flags: { signCount?: number } = {}) {
  const { challenge, rpId } = (await options(browser, 'passkey-challenge')).body
  return authenticator.get({ challenge, origin: browser.origin, rpId }, flags)
}

export async function signInWith(browser: Browser, authenticator: Authenticator, flags: { signCount?: number } = {}) {
  const answer = await answerTo(browser, authenticator, flags)
  return browser.send('POST', '/console/passkey-session', { body: { answer } })
}
