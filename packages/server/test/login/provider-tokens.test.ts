import { decodeJwt, decodeProtectedHeader, importJWK, SignJWT } from 'jose'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Refusal } from '../../src/access/authenticate.ts'
import { standardForm, type TokenForm } from '../../src/login/access-token.ts'
import { createOpenIdIssuer } from '../../src/login/openid.ts'
import { type Provider, providers } from './support/provider-tokens.ts'
import { audience, newSigningKey, person, startRealIssuer } from './support/real-issuer.ts'

/*
 * Tokens as Keycloak, Auth0, Entra and Zitadel issue them, with the settings that docs/identity.md names for each.
 */

const key = await newSigningKey()
const { d: _d, p: _p, q: _q, dp: _dp, dq: _dq, qi: _qi, ...publicKey } = key

/** Discovery and keys of an issuer that is not there. */
const issuerAt =
  (issuer: string): typeof fetch =>
  async (url) =>
    Response.json(
      String(url).endsWith('/.well-known/openid-configuration')
        ? { issuer, jwks_uri: 'https://keys.example.com/jwks' }
        : { keys: [publicKey] },
    )

async function sign(
  { issuer }: Provider,
  { header, claims }: Provider['access'],
  changed: object = {},
): Promise<string> {
  const now = Math.floor(Date.now() / 1000)
  return new SignJWT({ iss: issuer, iat: now, nbf: now, exp: now + 600, ...claims, ...changed })
    .setProtectedHeader({ ...header, alg: key.alg, kid: key.kid })
    .sign(await importJWK(key, key.alg))
}

async function verify(provider: Provider, token: string, form: TokenForm = provider.form) {
  const { issuer, audience } = provider
  const refusals: Refusal[] = []
  const tokens = createOpenIdIssuer({ issuer, audience, form, now: () => new Date(), fetch: issuerAt(issuer) })
  const login = await tokens.verify(token, (refusal) => refusals.push(refusal))
  return { login, check: refusals.map(({ check }) => check).join() }
}

describe.each(providers)('$name', (provider) => {
  test('an access token is accepted with the documented settings', async () => {
    const { login } = await verify(provider, await sign(provider, provider.access))
    const { issuer, subject, verifiedEmail } = provider
    expect(login).toMatchObject({ issuer, subject, verifiedEmail, operator: false })
  })

  test('an access token is refused by its type without them', async () => {
    const { login, check } = await verify(provider, await sign(provider, provider.access), standardForm)
    expect([login, check]).toEqual([null, 'type'])
  })

  test('an ID token is refused by its type, even with the audience of the API', async () => {
    const { login, check } = await verify(provider, await sign(provider, provider.id, { aud: provider.audience }))
    expect([login, check]).toEqual([null, 'type'])
  })

  test('a token for another audience or of another issuer is refused', async () => {
    for (const [changed, expected] of [
      [{ aud: 'https://elsewhere.example.com' }, 'audience'],
      [{ iss: `${provider.issuer}x` }, 'issuer'],
    ] as const) {
      const { login, check } = await verify(provider, await sign(provider, provider.access, changed))
      expect([login, check]).toEqual([null, expected])
    }
  })

  test('a token of a client that is not in the list is refused', async () => {
    const token = await sign(provider, provider.access)
    const { login, check } = await verify(provider, token, { ...provider.form, clients: ['another'] })
    expect([login, check]).toEqual([null, 'client'])
  })

  test('an address that nobody vouches for is not used', async () => {
    const changed = { [provider.form.emailClaim]: 'boss@example.com', [provider.form.emailVerifiedClaim]: false }
    const { login } = await verify(provider, await sign(provider, provider.access, changed))
    expect(login).toMatchObject({ subject: provider.subject, verifiedEmail: null })
  })
})

test('a refresh or logout token of Keycloak is refused by its type', async () => {
  const [keycloak] = providers
  for (const typ of ['Refresh', 'Offline', 'Logout', 'ID', 'bearer', 7]) {
    const { login, check } = await verify(keycloak!, await sign(keycloak!, keycloak!.access, { typ }))
    expect([login, check]).toEqual([null, 'type'])
  }
})

test('a real issuer with tokens of that form: its access token is accepted, its ID token is not', async () => {
  const real = await startRealIssuer({ signingKey: await newSigningKey(), plainJwt: true })
  onTestFinished(() => real.stop())
  const { accessToken, idToken } = await real.logIn()
  expect([decodeProtectedHeader(accessToken).typ, decodeJwt(accessToken).azp]).toEqual(['JWT', 'web'])
  const verifyWith = (form: TokenForm, accepted = audience) =>
    createOpenIdIssuer({ issuer: real.issuer, audience: accepted, form, now: () => new Date() })
  const form: TokenForm = { ...standardForm, type: 'JWT' }
  const login = await verifyWith(form).verify(accessToken)
  expect(login).toMatchObject({ subject: person.subject, verifiedEmail: person.email })
  expect(await verifyWith({ ...form, clients: ['web'] }).verify(accessToken)).toEqual(login)
  expect(await verifyWith({ ...form, clients: ['robot'] }).verify(accessToken)).toBeNull()
  expect(await verifyWith(standardForm).verify(accessToken)).toBeNull()
  // The audience of an ID token is its client; this one has neither nonce nor hashes, but does not name a client either.
  expect(await verifyWith(form, 'web').verify(idToken)).toBeNull()
})
