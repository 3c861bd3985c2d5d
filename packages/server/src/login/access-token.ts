import { type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose'
import { Fault } from '../kernel/faults.ts'

/** Longer tokens are refused unread. Real ones stay below 2 KiB, and a header field has to fit in 16 KiB anyway. */
export const tokenCharsMax = 8 * 1024

/** Allowed for every time in a token, in both directions: issuers and our nodes do not share a clock. */
const clockToleranceSeconds = 60

export type AccessToken = { subject: string; tokenId: string | null; claims: JWTPayload }

export type AccessTokenRules = {
  issuer: string
  audience: string
  algorithms: string[]
  key: JWTVerifyGetKey
  now: () => Date
}

/** The checks of RFC 9068, section 4. Null when the token fails one; a Fault from the key lookup passes through. */
export async function verifyAccessToken(token: string, rules: AccessTokenRules): Promise<AccessToken | null> {
  if (token.length > tokenCharsMax) return null
  const claims = await verifiedClaims(token, rules)
  if (claims === null) return null

  const { sub, client_id: clientId, jti, iat } = claims
  if (!isName(sub) || !isName(clientId)) return null
  if (jti !== undefined && !isName(jti)) return null
  // jose looks at `iat` only together with a maximum age, which RFC 9068 does not have.
  if (iat !== undefined && iat > rules.now().getTime() / 1000 + clockToleranceSeconds) return null
  return { subject: sub, tokenId: jti ?? null, claims }
}

async function verifiedClaims(token: string, rules: AccessTokenRules): Promise<JWTPayload | null> {
  try {
    const { payload } = await jwtVerify(token, rules.key, {
      // An ID token of the same issuer has another `typ`: it tells a client who logged in and grants nothing here.
      typ: 'at+jwt',
      algorithms: rules.algorithms,
      issuer: rules.issuer,
      audience: rules.audience,
      requiredClaims: ['exp', 'sub', 'client_id'],
      clockTolerance: clockToleranceSeconds,
      currentDate: rules.now(),
    })
    return payload
  } catch (error) {
    if (error instanceof Fault) throw error
    // Besides its own errors jose lets those of WebCrypto through, for example for a published key that is too short.
    return null
  }
}

/**
 * What may name a subject, a client or a token. OpenID Connect allows a subject 255 characters. PostgreSQL's text type
 * refuses NUL, and lone surrogates are all replaced by the same character on their way there: two subjects would meet.
 */
export const isName = (value: unknown): value is string =>
  typeof value === 'string' && /^[^\p{Cc}\p{Cs}]{1,255}$/u.test(value)
