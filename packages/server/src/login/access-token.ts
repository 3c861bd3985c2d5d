import { hash } from 'node:crypto'
import { type JWTHeaderParameters, jwtVerify } from 'jose'
import { Fault } from '../kernel/faults.ts'

/** Longer tokens are refused unread. Real ones stay below 2 KiB, and a header field has to fit in 16 KiB anyway. */
export const tokenCharsMax = 8 * 1024

/** Allowed for every time in a token, in both directions: issuers and our nodes do not share a clock. */
const clockToleranceSeconds = 60

/** Tokens whose signature is remembered. One takes one or two kilobytes. */
const rememberedMax = 10_000

/** No more of a token than is needed: it may hold kilobytes of groups and names, and all of it would be remembered. */
type Claims = Record<'exp' | 'nbf' | 'iat', number | undefined> &
  Record<'sub' | 'client_id' | 'jti' | 'scope' | 'email' | 'email_verified', unknown>

export type AccessToken = { subject: string; tokenId: string | null; claims: Claims }

/** The issuer's key that a token says it was signed with, as things are now. */
export type KeyOf = (header: JWTHeaderParameters) => CryptoKey | Promise<CryptoKey>

export type AccessTokenRules = { issuer: string; audience: string; algorithms: string[]; key: KeyOf; now: () => Date }

type Signed = { header: JWTHeaderParameters; key: CryptoKey; claims: Claims }

/**
 * The checks of RFC 9068, section 4. Null when the token fails one; a Fault from the key lookup passes through.
 *
 * That this signature was made with that key stays true, and finding it out takes 130 µs on another thread and 60 on this
 * one: it is remembered, by the token's hash. Whether the key is still the issuer's, and the time the token's, is asked
 * every time; who the user is and what they may do is none of a token's business.
 */
export function createAccessTokens(rules: AccessTokenRules): (token: string) => Promise<AccessToken | null> {
  const remembered = new Map<string, Signed>()

  function remember(digest: string, signed: Signed): void {
    // It may be there with a key that the issuer has replaced.
    remembered.delete(digest)
    const [oldest] = remembered.keys()
    if (remembered.size >= rememberedMax && oldest !== undefined) remembered.delete(oldest)
    remembered.set(digest, signed)
  }

  async function signedClaims(token: string): Promise<Claims | null> {
    const digest = hash('sha256', token, 'base64')
    const known = remembered.get(digest)
    try {
      if (known !== undefined && known.key === (await rules.key(known.header))) return known.claims
      if (!isSpelledProperly(token)) return null
      const signed = await verify(token, rules)
      remember(digest, signed)
      return signed.claims
    } catch (error) {
      if (error instanceof Fault) throw error
      // Besides its own errors jose lets those of WebCrypto through, for example for a published key that is too short.
      return null
    }
  }

  return async (token) => {
    if (token.length > tokenCharsMax) return null
    const claims = await signedClaims(token)
    if (claims === null || !isInTime(claims, rules.now())) return null
    const { sub, client_id: clientId, jti } = claims
    if (!isName(sub) || !isName(clientId)) return null
    if (jti !== undefined && !isName(jti)) return null
    return { subject: sub, tokenId: jti ?? null, claims }
  }
}

async function verify(token: string, rules: AccessTokenRules): Promise<Signed> {
  const { protectedHeader, payload, key } = await jwtVerify(token, rules.key, {
    // An ID token of the same issuer has another `typ`: it tells a client who logged in and grants nothing here.
    typ: 'at+jwt',
    algorithms: rules.algorithms,
    issuer: rules.issuer,
    audience: rules.audience,
    requiredClaims: ['exp', 'sub', 'client_id'],
    clockTolerance: clockToleranceSeconds,
    currentDate: rules.now(),
  })
  const { alg, kid } = protectedHeader
  const { sub, client_id, jti, exp, nbf, iat, scope, email, email_verified } = payload
  const claims = { sub, client_id, jti, exp, nbf, iat, scope, email, email_verified }
  return { header: kid === undefined ? { alg } : { alg, kid }, key: key as CryptoKey, claims }
}

/** RFC 4648, 3.5: the last character of a signature may have bits that say nothing, and with others it is another text. */
function isSpelledProperly(token: string): boolean {
  const signature = token.slice(token.lastIndexOf('.') + 1)
  return Buffer.from(signature, 'base64url').toString('base64url') === signature
}

/** jose has seen to it that they are numbers; it looks at `iat` only with a maximum age, which RFC 9068 does not have. */
function isInTime({ exp, nbf, iat }: Claims, now: Date): boolean {
  const seconds = Math.floor(now.getTime() / 1000)
  if (exp === undefined || exp <= seconds - clockToleranceSeconds) return false
  return Math.max(nbf ?? 0, iat ?? 0) <= seconds + clockToleranceSeconds
}

/**
 * What may name a subject, a client or a token. OpenID Connect allows a subject 255 characters. PostgreSQL's text type
 * refuses NUL, and lone surrogates are all replaced by the same character on their way there: two subjects would meet.
 */
export const isName = (value: unknown): value is string =>
  typeof value === 'string' && /^[^\p{Cc}\p{Cs}]{1,255}$/u.test(value)
