import { hash } from 'node:crypto'
import { type JWTHeaderParameters, jwtVerify } from 'jose'
import { Fault } from '../kernel/faults.ts'

/** Longer tokens are refused without parsing. Real ones have less than 2 KiB. */
export const tokenCharsMax = 8 * 1024

/** Tolerance for every time in a token: clocks of issuers and nodes differ. */
const clockToleranceSeconds = 60

/** Size of the signature cache. An entry takes 1 to 2 KB. */
const cachedMax = 10_000

/** Only the claims we use: a token may have kilobytes of others, and entries are cached. */
type Claims = Record<'exp' | 'nbf' | 'iat', number | undefined> &
  Record<'sub' | 'client_id' | 'jti' | 'scope' | 'email' | 'email_verified', unknown>

export type AccessToken = { subject: string; tokenId: string | null; claims: Claims }

/** The issuer's current key for the header of a token. */
export type KeyOf = (header: JWTHeaderParameters) => CryptoKey | Promise<CryptoKey>

export type AccessTokenRules = { issuer: string; audience: string; algorithms: string[]; key: KeyOf; now: () => Date }

type Signed = { header: JWTHeaderParameters; key: CryptoKey; claims: Claims }

/**
 * The checks of RFC 9068, section 4. Returns null when one fails; a Fault of the key lookup is passed on.
 *
 * A signature check takes 190 µs, and its result for a given key never changes, so it is cached by the hash of the token. The
 * issuer's current key and the times of the token are checked on every request.
 */
export function createAccessTokens(rules: AccessTokenRules): (token: string) => Promise<AccessToken | null> {
  const cache = new Map<string, Signed>()

  function store(digest: string, signed: Signed): void {
    // It may be cached with a key that the issuer has replaced since.
    cache.delete(digest)
    const [oldest] = cache.keys()
    if (cache.size >= cachedMax && oldest !== undefined) cache.delete(oldest)
    cache.set(digest, signed)
  }

  async function signedClaims(token: string): Promise<Claims | null> {
    const digest = hash('sha256', token, 'base64')
    const known = cache.get(digest)
    try {
      if (known !== undefined && known.key === (await rules.key(known.header))) return known.claims
      if (!isCanonical(token)) return null
      const signed = await verify(token, rules)
      store(digest, signed)
      return signed.claims
    } catch (error) {
      if (error instanceof Fault) throw error
      // jose also throws errors of WebCrypto, for example for a published key that is too short.
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
    // An ID token of the same issuer has another `typ`: it is for the client and grants no access.
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

/** RFC 4648, 3.5: the last character of a signature has unused bits, so several texts could mean the same signature. */
function isCanonical(token: string): boolean {
  const signature = token.slice(token.lastIndexOf('.') + 1)
  return Buffer.from(signature, 'base64url').toString('base64url') === signature
}

/** jose has checked that they are numbers. It checks `iat` only with a maximum age, which RFC 9068 does not have. */
function isInTime({ exp, nbf, iat }: Claims, now: Date): boolean {
  const seconds = Math.floor(now.getTime() / 1000)
  if (exp === undefined || exp <= seconds - clockToleranceSeconds) return false
  return Math.max(nbf ?? 0, iat ?? 0) <= seconds + clockToleranceSeconds
}

/**
 * A valid subject, client id or token id: OpenID Connect allows 255 characters. PostgreSQL refuses NUL, and all lone
 * surrogates would be stored as the same character, so two subjects could become equal.
 */
export const isName = (value: unknown): value is string =>
  typeof value === 'string' && /^[^\p{Cc}\p{Cs}]{1,255}$/u.test(value)
