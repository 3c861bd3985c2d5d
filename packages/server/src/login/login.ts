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
