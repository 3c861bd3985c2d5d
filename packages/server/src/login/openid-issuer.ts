import assert from 'node:assert/strict'
import { createAccessTokens, isName, standardForm, type TokenForm } from './access-token.ts'
import { createIssuerKeys } from './issuer-keys.ts'
import { issuerUrlProblem } from './issuer-url.ts'
import type { TokenIssuer } from './login-tokens.ts'

/** Asymmetric signatures only. With HMAC the issuer's public key would be the secret. */
const algorithms = [
  ...['RS256', 'RS384', 'RS512'],
  ...['PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512'],
  ...['EdDSA', 'Ed25519'],
]

/** An OpenID Connect issuer of the operator. Nothing is read from it before the first token. */
export function createOpenIdIssuer(deps: {
  issuer: string
  audience: string
  now: () => Date
  form?: TokenForm
  fetch?: typeof fetch
}): TokenIssuer {
  const { issuer, audience, now } = deps
  assert.equal(issuerUrlProblem(issuer), null)
  assert(audience !== '', 'without an audience, tokens meant for other services would be good here')
  const key = createIssuerKeys({ issuer, now, fetch: deps.fetch ?? fetch })
  const form = deps.form ?? standardForm
  const verifyToken = createAccessTokens({ issuer, audience, algorithms, key, now, form })

  return {
    issuer,
    async verify(token, onRefused) {
      const verified = await verifyToken(token, onRefused)
      if (verified === null) return null
      const { subject, tokenId, claims } = verified
      const verifiedEmail = isTrue(claims.emailVerified) && isName(claims.email) ? claims.email : null
      // Never an operator, whatever its scopes: only the local issuer issues operator tokens.
      // Its `sid` is a session over there.
      const mine = { operator: false, sessionId: null, openedOrg: null }
      return { issuer, subject, tokenId, verifiedEmail, ...mine, expiresAt: claims.exp! }
    },
  }
}

/** Entra writes `xms_edov` as a boolean or as 1. The text "true" is no boolean, whoever writes it. */
const isTrue = (value: unknown): boolean => value === true || value === 1 || value === '1'
