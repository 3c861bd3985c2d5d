import assert from 'node:assert/strict'
import { createAccessTokens, isName } from './access-token.ts'
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
  fetch?: typeof fetch
}): TokenIssuer {
  const { issuer, audience, now } = deps
  assert.equal(issuerUrlProblem(issuer), null)
  assert(audience !== '', 'without an audience, tokens meant for other services would be good here')
  const key = createIssuerKeys({ issuer, now, fetch: deps.fetch ?? fetch })
  const verifyToken = createAccessTokens({ issuer, audience, algorithms, key, now })

  return {
    issuer,
    async verify(token) {
      const verified = await verifyToken(token)
      if (verified === null) return null
      const { subject, tokenId, claims } = verified
      const verifiedEmail = claims.email_verified === true && isName(claims.email) ? claims.email : null
      // Never an operator, whatever its scopes: only the local issuer issues operator tokens.
      return { issuer, subject, tokenId, verifiedEmail, operator: false, expiresAt: claims.exp! }
    },
  }
}
