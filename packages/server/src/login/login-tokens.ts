import assert from 'node:assert/strict'
import { createHash, createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'
import { decodeJwt, errors, SignJWT } from 'jose'
import { type LoginTokens, localIssuerName } from '../access/authenticate.ts'
import { newId } from '../lib/ids.ts'
import type { MasterKeys } from '../lib/master-keys.ts'
import { createAccessTokens, isName, type KeyOf, shown, tokenCharsMax } from './access-token.ts'

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

const audience = 'keyhook'
const algorithm = 'EdDSA'
const operatorScope = 'operator'
const readingScope = 'operator:read'

/** A leaked local token ends only by its expiry or with a new master key, so the lifetime is limited. */
export const localTtlSecondsMax = 366 * 24 * 60 * 60

export type LocalIssuer = TokenIssuer & {
  /**
   * A token for the operator needs an id that is stored (`operator/token-routes.ts`) or a session. `sessionId` names a session of the
   * console, with which the token ends.
   */
  issue(request: {
    subject: string
    ttlSeconds: number
    operator?: boolean
    tokenId?: string
    sessionId?: string
    /** For the operator: an organization that may be read, and nothing else. */
    openedOrg?: string
  }): Promise<string>
}

/** Needs no storage: its keys are derived from the master keys. The current one signs; tokens of older ones stay valid. */
export function createLocalIssuer(deps: { masterKeys: MasterKeys; now: () => Date }): LocalIssuer {
  const signers = deps.masterKeys.derive('local issuer').map(signerFromSeed)
  const [current] = signers
  assert(current, 'there is always a current master key')
  const publicKeys = new Map(signers.map(({ kid, publicKey }) => [kid, publicKey]))

  const key: KeyOf = ({ kid }) => {
    const found = kid === undefined ? undefined : publicKeys.get(kid)
    if (found === undefined) throw new errors.JWKSNoMatchingKey()
    return found
  }
  const verifyToken = createAccessTokens({
    issuer: localIssuerName,
    audience,
    algorithms: [algorithm],
    key,
    now: deps.now,
  })

  return {
    issuer: localIssuerName,
    async issue({ subject, ttlSeconds, operator = false, tokenId = newId('tok'), sessionId, openedOrg }) {
      assert(isName(subject), 'a subject has 1 to 255 characters, none of them control characters')
      assert(Number.isInteger(ttlSeconds), 'a lifetime is a whole number of seconds')
      assert(ttlSeconds > 0 && ttlSeconds <= localTtlSecondsMax, `a lifetime is 1 to ${localTtlSecondsMax} seconds`)
      const issuedAt = Math.floor(deps.now().getTime() / 1000)
      const client_id = sessionId === undefined ? 'keyhook-cli' : 'keyhook-console'
      const scope = openedOrg === undefined ? operatorScope : readingScope
      const own = {
        ...(operator && { scope }),
        ...(sessionId && { sid: sessionId }),
        ...(openedOrg && { org: openedOrg }),
      }
      return new SignJWT({ client_id, ...own })
        .setProtectedHeader({ alg: algorithm, typ: 'at+jwt', kid: current.kid })
        .setIssuer(localIssuerName)
        .setAudience(audience)
        .setSubject(subject)
        .setIssuedAt(issuedAt)
        .setExpirationTime(issuedAt + ttlSeconds)
        .setJti(tokenId)
        .sign(current.privateKey)
    },
    async verify(token, onRefused) {
      const verified = await verifyToken(token, onRefused)
      if (verified === null) return null
      const { subject, tokenId, claims } = verified
      const { sid } = claims
      if (sid !== undefined && !isName(sid)) return null
      const operator = claims.scope === operatorScope
      const openedOrg = claims.scope === readingScope && isName(claims.org) ? claims.org : null
      const sessionId = sid ?? null
      return {
        issuer: localIssuerName,
        subject,
        tokenId,
        verifiedEmail: null,
        operator,
        sessionId,
        openedOrg,
        expiresAt: claims.exp!,
      }
    },
  }
}

type Signer = { kid: string; privateKey: KeyObject; publicKey: CryptoKey }

function signerFromSeed(seed: Buffer): Signer {
  const privateKey = createPrivateKey({ key: seed, format: 'raw-private', asymmetricKeyType: 'ed25519' })
  const publicKey = createPublicKey(privateKey)
  const { crv, kty, x } = publicKey.export({ format: 'jwk' })
  // RFC 7638 fixes the members and their order.
  const kid = createHash('sha256').update(JSON.stringify({ crv, kty, x })).digest('base64url')
  return { kid, privateKey, publicKey: publicKey.toCryptoKey('Ed25519', true, ['verify']) }
}
