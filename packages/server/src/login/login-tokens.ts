import assert from 'node:assert/strict'
import { decodeJwt } from 'jose'
import { tokenCharsMax } from './access-token.ts'

/** The user of a login token: issuer and subject together, since another issuer may use the same subject. */
export type Login = {
  issuer: string
  subject: string
  tokenId: string | null
  /** Only if the issuer has verified it: otherwise a user could enter the address of another. */
  verifiedEmail: string | null
  operator: boolean
  /** In seconds since 1970, as in the token. */
  expiresAt: number
}

/** The subjects of the local issuer are our user ids. No OpenID issuer can have this name: theirs are URLs. */
export const localIssuerName = 'urn:keyhook:local'

/** `verify` returns null for an invalid token, and throws when it cannot decide because of an outage. */
export type TokenIssuer = { issuer: string; verify(token: string): Promise<Login | null> }

export type LoginTokens = { verify(token: string): Promise<Login | null> }

export function createLoginTokens(deps: { issuers: TokenIssuer[] }): LoginTokens {
  const byName = new Map(deps.issuers.map((issuer) => [issuer.issuer, issuer]))
  assert.equal(byName.size, deps.issuers.length, 'two issuers share a name')

  return {
    async verify(token) {
      const name = claimedIssuer(token)
      const issuer = name === null ? undefined : byName.get(name)
      return issuer === undefined ? null : issuer.verify(token)
    },
  }
}

/** Not verified yet: it only selects the issuer, which then checks the signature. */
function claimedIssuer(token: string): string | null {
  if (token.length > tokenCharsMax) return null
  try {
    return decodeJwt(token).iss ?? null
  } catch {
    return null
  }
}
