import assert from 'node:assert/strict'
import { decodeJwt } from 'jose'
import { tokenCharsMax } from './access-token.ts'
import { type OnRefused, shown } from './refusals.ts'

/** The user of a login token: issuer and subject together, since another issuer may use the same subject. */
export type Login = {
  issuer: string
  subject: string
  tokenId: string | null
  /** Only if the issuer has verified it: otherwise a user could enter the address of another. */
  verifiedEmail: string | null
  operator: boolean
  /** The console session that the token was issued for: it ends with the session. */
  sessionId: string | null
  /** An operator has opened this organization for reading. The token acts as no user. */
  openedOrg: string | null
  /** In seconds since 1970, as in the token. */
  expiresAt: number
}

/** The subjects of the local issuer are our user ids. No OpenID issuer can have this name: theirs are URLs. */
export const localIssuerName = 'urn:keyhook:local'

/** `verify` returns null for an invalid token, after `onRefused`, and throws when it cannot decide because of an outage. */
export type LoginTokens = { verify(token: string, onRefused?: OnRefused): Promise<Login | null> }

export type TokenIssuer = LoginTokens & { issuer: string }

export function createLoginTokens(deps: { issuers: TokenIssuer[] }): LoginTokens {
  const byName = new Map(deps.issuers.map((issuer) => [issuer.issuer, issuer]))
  assert.equal(byName.size, deps.issuers.length, 'two issuers share a name')

  return {
    async verify(token, onRefused) {
      const name = claimedIssuer(token)
      const issuer = byName.get(name as string)
      if (issuer !== undefined) return issuer.verify(token, onRefused)
      if (name === null) onRefused?.({ check: 'form', detail: 'not a JWT, or a very long one' })
      else {
        const known = [...byName.keys()].map(shown).join(' or ')
        onRefused?.({ check: 'issuer', detail: `expected ${known}, found ${shown(name)}` })
      }
      return null
    },
  }
}

/** Not verified yet: it only selects the issuer, which then checks the signature. Null for what is no JWT. */
function claimedIssuer(token: string): unknown {
  if (token.length > tokenCharsMax) return null
  try {
    return decodeJwt(token).iss
  } catch {
    return null
  }
}
