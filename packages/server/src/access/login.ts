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

/** The check that a login token failed. For the operator's log: callers get the same 401 for each of them. */
export type RefusalCheck =
  | 'form'
  | 'issuer'
  | 'key'
  | 'algorithm'
  | 'signature'
  | 'type'
  | 'audience'
  | 'time'
  | 'subject'
  | 'client'

export type Refusal = { check: RefusalCheck; detail: string }

/** Called once for a token that is refused. */
export type OnRefused = (refusal: Refusal) => void
