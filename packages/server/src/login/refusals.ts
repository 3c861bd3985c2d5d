import { errors } from 'jose'

/** The check that a login token failed. For the operator's log: callers get the same 401 for each of them. */
type Check = 'form' | 'issuer' | 'key' | 'algorithm' | 'signature' | 'type' | 'audience' | 'time' | 'subject' | 'client'

export type Refusal = { check: Check; detail: string }

/** Called once for a token that is refused. */
export type OnRefused = (refusal: Refusal) => void

/** A value of a token for the log, on one line and short. It may come from anyone: the signature is perhaps not checked yet. */
export const shown = (value: unknown): string => (value === undefined ? 'none' : JSON.stringify(value).slice(0, 200))

const checkOfClaim: Record<string, Check> = {
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
export function refusalOf(error: unknown, expected: { issuer: string; audience: string }): Refusal {
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
