import { hash } from 'node:crypto'
import { errors, type JWTHeaderParameters, type JWTPayload, jwtVerify } from 'jose'
import type { OnRefused, Refusal, RefusalCheck } from '../access/authenticate.ts'
import { Fault } from '../lib/faults.ts'

/** Longer tokens are refused without parsing. Real ones have less than 2 KiB. */
export const tokenCharsMax = 8 * 1024

/** Tolerance for every time in a token: clocks of issuers and nodes differ. */
const clockToleranceSeconds = 60

/** Size of the signature cache. An entry takes 1 to 2 KB. */
const cachedMax = 10_000

/** Only the claims we use: a token may have kilobytes of others, and entries are cached. */
type Claims = Record<'exp' | 'nbf' | 'iat', number | undefined> &
  Record<'sub' | 'client' | 'jti' | 'sid' | 'org' | 'scope' | 'email' | 'emailVerified', unknown>

export type AccessToken = { subject: string; tokenId: string | null; claims: Claims }

/** The issuer's current key for the header of a token. */
export type KeyOf = (header: JWTHeaderParameters) => CryptoKey | Promise<CryptoKey>

/** What the access tokens of an issuer look like. */
export type TokenForm = {
  /** `JWT`: also tokens that do not say that they are access tokens, as those of Keycloak, Auth0, Entra and Zitadel. */
  type: 'at+jwt' | 'JWT'
  /** Clients whose tokens are accepted; null for all. */
  clients: readonly string[] | null
  emailClaim: string
  emailVerifiedClaim: string
}

/** RFC 9068 and OpenID Connect. */
export const standardForm: TokenForm = {
  type: 'at+jwt',
  clients: null,
  emailClaim: 'email',
  emailVerifiedClaim: 'email_verified',
}

export type AccessTokenRules = {
  issuer: string
  audience: string
  algorithms: string[]
  key: KeyOf
  now: () => Date
  form?: TokenForm
}

type Signed = { header: JWTHeaderParameters; key: CryptoKey; claims: Claims }

class Refused extends Error {
  readonly refusal: Refusal
  constructor(check: Refusal['check'], detail: string) {
    super(detail)
    this.refusal = { check, detail }
  }
}

/**
 * The checks of RFC 9068, section 4. Returns null when one fails, after `onRefused`; a Fault of the key lookup is passed on.
 *
 * A signature check takes 190 µs, and its result for a given key never changes, so it is cached by the hash of the token. The
 * issuer's current key and the times of the token are checked on every request.
 */
export function createAccessTokens(
  rules: AccessTokenRules,
): (token: string, onRefused?: OnRefused) => Promise<AccessToken | null> {
  const cache = new Map<string, Signed>()
  const form = rules.form ?? standardForm

  function store(digest: string, signed: Signed): void {
    // It may be cached with a key that the issuer has replaced since.
    cache.delete(digest)
    const [oldest] = cache.keys()
    if (cache.size >= cachedMax && oldest !== undefined) cache.delete(oldest)
    cache.set(digest, signed)
  }

  async function signedClaims(token: string): Promise<Claims> {
    const digest = hash('sha256', token, 'base64')
    const known = cache.get(digest)
    if (known !== undefined && known.key === (await rules.key(known.header))) return known.claims
    if (!isCanonical(token)) throw new Refused('form', 'the signature is not written in its shortest form')
    const signed = await verify(token, rules, form)
    store(digest, signed)
    return signed.claims
  }

  async function check(token: string): Promise<AccessToken> {
    if (token.length > tokenCharsMax) throw new Refused('form', `longer than ${tokenCharsMax} characters`)
    const claims = await signedClaims(token)
    checkTimes(claims, rules.now())
    const { sub, client, jti } = claims
    if (!isName(sub)) throw new Refused('subject', '`sub` is not 1 to 255 characters')
    if (!isName(client)) throw new Refused('client', 'it does not name its client')
    if (form.clients !== null && !form.clients.includes(client)) {
      throw new Refused('client', `expected one of ${shown(form.clients)}, found ${shown(client)}`)
    }
    if (jti !== undefined && !isName(jti)) throw new Refused('form', '`jti` is not 1 to 255 characters')
    return { subject: sub, tokenId: jti ?? null, claims }
  }

  return async (token, onRefused) => {
    try {
      return await check(token)
    } catch (error) {
      if (error instanceof Fault) throw error
      onRefused?.(error instanceof Refused ? error.refusal : refusalOf(error, rules))
      return null
    }
  }
}

async function verify(token: string, rules: AccessTokenRules, form: TokenForm): Promise<Signed> {
  const { protectedHeader, payload, key } = await jwtVerify(token, rules.key, {
    algorithms: rules.algorithms,
    issuer: rules.issuer,
    audience: rules.audience,
    requiredClaims: ['exp', 'sub'],
    clockTolerance: clockToleranceSeconds,
    currentDate: rules.now(),
  })
  const isStandard = checkType(protectedHeader.typ, payload, form)
  const { alg, kid } = protectedHeader
  const { sub, client_id, azp, appid, jti, sid, org, exp, nbf, iat, scope } = payload
  const client = isStandard ? client_id : (client_id ?? azp ?? appid)
  const { [form.emailClaim]: email, [form.emailVerifiedClaim]: emailVerified } = payload
  const claims = { sub, client, jti, sid, org, exp, nbf, iat, scope, email, emailVerified }
  return { header: kid === undefined ? { alg } : { alg, kid }, key: key as CryptoKey, claims }
}

/** Claims that only ID tokens have. An ID token is for the client and grants no access. */
const idTokenClaims = ['nonce', 'at_hash', 'c_hash', 's_hash']

/** Whether the token says that it is an access token (RFC 9068). Throws for one that may be something else. */
function checkType(typ: string | undefined, payload: JWTPayload, form: TokenForm): boolean {
  const type = typ?.toLowerCase().replace(/^application\//, '')
  if (type === 'at+jwt') return true
  if (form.type === 'at+jwt') throw new Refused('type', `expected at+jwt, found ${shown(typ)}`)
  if (type !== undefined && type !== 'jwt') throw new Refused('type', `expected JWT or at+jwt, found ${shown(typ)}`)
  // Keycloak has the kind in a claim: Bearer, ID, Refresh, Logout. Older versions put a nonce into access tokens too.
  if (payload.typ === 'Bearer') return false
  if (payload.typ !== undefined) throw new Refused('type', `its claim \`typ\` is ${shown(payload.typ)}, not Bearer`)
  const found = idTokenClaims.find((name) => payload[name] !== undefined)
  if (found !== undefined) throw new Refused('type', `it is an ID token: it has \`${found}\``)
  return false
}

/** RFC 4648, 3.5: the last character of a signature has unused bits, so several texts could mean the same signature. */
function isCanonical(token: string): boolean {
  const signature = token.slice(token.lastIndexOf('.') + 1)
  return Buffer.from(signature, 'base64url').toString('base64url') === signature
}

/** jose has checked that they are numbers. It checks `iat` only with a maximum age, which RFC 9068 does not have. */
function checkTimes({ exp, nbf, iat }: Claims, now: Date): void {
  const seconds = Math.floor(now.getTime() / 1000)
  if (exp === undefined || exp <= seconds - clockToleranceSeconds) throw new Refused('time', `expired at ${exp}`)
  const begin = Math.max(nbf ?? 0, iat ?? 0)
  if (begin > seconds + clockToleranceSeconds) throw new Refused('time', `not valid before ${begin}, now is ${seconds}`)
}

/**
 * A valid subject, client id or token id: OpenID Connect allows 255 characters. PostgreSQL refuses NUL, and all lone
 * surrogates would be stored as the same character, so two subjects could become equal.
 */
export const isName = (value: unknown): value is string =>
  typeof value === 'string' && /^[^\p{Cc}\p{Cs}]{1,255}$/u.test(value)

/** A value of a token for the log, on one line and short. It may come from anyone: the signature is perhaps not checked yet. */
export const shown = (value: unknown): string => (value === undefined ? 'none' : JSON.stringify(value).slice(0, 200))

const checkOfClaim: Record<string, RefusalCheck> = {
  typ: 'type',
  iss: 'issuer',
  aud: 'audience',
  exp: 'time',
  nbf: 'time',
  iat: 'time',
  sub: 'subject',
  client_id: 'client',
}

/** Which check an error of jose stands for. */
function refusalOf(error: unknown, expected: { issuer: string; audience: string }): Refusal {
  if (error instanceof errors.JWTExpired) return { check: 'time', detail: `expired at ${shown(error.payload.exp)}` }
  if (error instanceof errors.JWTClaimValidationFailed) return ofClaim(error, expected)
  if (error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys) {
    return { check: 'key', detail: 'the issuer publishes no key, or several, for the `kid` and `alg` of the token' }
  }
  if (error instanceof errors.JOSEAlgNotAllowed) return { check: 'algorithm', detail: 'its `alg` is not accepted' }
  if (error instanceof errors.JWSSignatureVerificationFailed) {
    return { check: 'signature', detail: 'the signature does not fit the key of the issuer' }
  }
  if (error instanceof errors.JOSEError) return { check: 'form', detail: error.message }
  // jose also throws errors of WebCrypto, for example for a published key that is too short.
  return {
    check: 'key',
    detail: `the key of the issuer cannot be used: ${error instanceof Error ? error.message : error}`,
  }
}

function ofClaim(
  { claim, reason, payload }: errors.JWTClaimValidationFailed,
  expected: { issuer: string; audience: string },
): Refusal {
  const check = checkOfClaim[claim] ?? 'form'
  const found = `found ${shown(payload[claim])}`
  if (check === 'audience') return { check, detail: `expected ${shown(expected.audience)}, ${found}` }
  if (check === 'issuer') return { check, detail: `expected ${shown(expected.issuer)}, ${found}` }
  return { check, detail: reason === 'missing' ? `there is no \`${claim}\`` : `\`${claim}\`: ${found}` }
}
