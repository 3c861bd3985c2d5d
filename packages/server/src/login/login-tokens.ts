import assert from 'node:assert/strict'
import { decodeJwt } from 'jose'
import { tokenCharsMax } from './access-token.ts'
import type { Login, TokenIssuer } from './login.ts'

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
