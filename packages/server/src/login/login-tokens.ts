import assert from 'node:assert/strict'
import { decodeJwt } from 'jose'
import { tokenCharsMax } from './access-token.ts'

/** Who a login token speaks for. A person is the pair of issuer and subject: another issuer may use the same subject. */
export type Login = {
  issuer: string
  subject: string
  tokenId: string | null
  /** Only an address that the issuer says it has verified: anybody can type somebody else's address into a form. */
  verifiedEmail: string | null
  operator: boolean
}

/** The subjects of the local issuer are our user ids. No OpenID issuer can have this name: theirs are URLs. */
export const localIssuerName = 'urn:keyhook:local'

/** `verify` answers null for a token that is not valid. It throws only when it cannot tell, which is our outage. */
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

/** Not yet verified: it only chooses who checks the token, and that issuer accepts nobody else's signature. */
function claimedIssuer(token: string): string | null {
  if (token.length > tokenCharsMax) return null
  try {
    return decodeJwt(token).iss ?? null
  } catch {
    return null
  }
}
