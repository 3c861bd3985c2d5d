import assert from 'node:assert/strict'
import * as openid from 'openid-client'
import { type Actor, recordAudit } from '../access/audit.ts'
import { type Database, isUniqueViolation } from '../db/database.ts'
import { Fault } from '../lib/faults.ts'
import type { UserId } from '../lib/ids.ts'
import { isPrivateChannel, issuerUrlProblem } from '../lib/network.ts'
import { createUser, verifyIn } from '../organizations/rules.ts'
import { organizationsOfUser } from '../organizations/sql.ts'
import { lockUser, recordSubject, wasRemoved } from '../organizations/users.ts'
import { createAccessTokens, isName, standardForm, type TokenForm } from './access-token.ts'
import { endSessionsOf } from './console-sessions.ts'
import { createIssuerKeys } from './issuer-keys.ts'
import type { TokenIssuer } from './login-tokens.ts'

/** What has to be kept in the browser between the two steps. */
export type LoginFlow = { state: string; nonce: string; verifier: string }

export type OpenIdPerson = { subject: string; verifiedEmail: string | null }

export type OpenIdClient = {
  /** Where to send the browser. */
  begin(): Promise<{ url: string; flow: LoginFlow }>
  /** Who has logged in, by the query of the callback; null if the issuer or the person refused. */
  finish(query: string, flow: LoginFlow): Promise<OpenIdPerson | null>
}

/** The authorization code flow with PKCE, for people who log in to the console. */
export function createOpenIdClient(deps: {
  issuer: string
  clientId: string
  clientSecret: string | null
  redirectUri: string
  emailClaim: string
  emailVerifiedClaim: string
}): OpenIdClient {
  let discovered: Promise<openid.Configuration> | null = null

  /** Read from the issuer with the first login, and again after a failure. */
  function configuration(): Promise<openid.Configuration> {
    discovered ??= discover(deps).catch((error) => {
      discovered = null
      throw error
    })
    return discovered
  }

  return {
    async begin() {
      const config = await configuration()
      const flow = {
        state: openid.randomState(),
        nonce: openid.randomNonce(),
        verifier: openid.randomPKCECodeVerifier(),
      }
      const url = openid.buildAuthorizationUrl(config, {
        redirect_uri: deps.redirectUri,
        scope: 'openid email',
        state: flow.state,
        nonce: flow.nonce,
        code_challenge: await openid.calculatePKCECodeChallenge(flow.verifier),
        code_challenge_method: 'S256',
      })
      return { url: url.href, flow }
    },

    async finish(query, { state, nonce, verifier }) {
      const config = await configuration()
      const checks = { pkceCodeVerifier: verifier, expectedState: state, expectedNonce: nonce }
      try {
        const tokens = await openid.authorizationCodeGrant(config, new URL(`${deps.redirectUri}${query}`), checks)
        const { sub } = tokens.claims()!
        const claims = await claimsOf(config, tokens, deps.emailClaim)
        const email = claims[deps.emailClaim]
        const isVerified = claims[deps.emailVerifiedClaim] === true
        return isName(sub) ? { subject: sub, verifiedEmail: isVerified && isName(email) ? email : null } : null
      } catch (error) {
        if (isRefusal(error)) return null
        throw error
      }
    },
  }
}

function discover({ issuer, clientId, clientSecret }: Parameters<typeof createOpenIdClient>[0]) {
  const url = new URL(issuer)
  const authentication = clientSecret === null ? openid.None() : openid.ClientSecretBasic(clientSecret)
  // The setting was checked: without TLS the issuer is on this machine.
  const execute = url.protocol === 'http:' && isPrivateChannel(url) ? [openid.allowInsecureRequests] : []
  return openid.discovery(url, clientId, undefined, authentication, { execute, timeout: 10 })
}

/** Many issuers give the e-mail address at their userinfo endpoint only. */
async function claimsOf(
  config: openid.Configuration,
  tokens: Awaited<ReturnType<typeof openid.authorizationCodeGrant>>,
  emailClaim: string,
): Promise<Record<string, unknown>> {
  const claims = tokens.claims()!
  if (claims[emailClaim] !== undefined || config.serverMetadata().userinfo_endpoint === undefined) return claims
  return openid.fetchUserInfo(config, tokens.access_token, claims.sub)
}

/** An answer that does not belong to this flow, or a refusal of the issuer: not an outage. */
const isRefusal = (error: unknown): boolean =>
  error instanceof openid.AuthorizationResponseError ||
  error instanceof openid.ResponseBodyError ||
  (error instanceof openid.ClientError && error.code !== 'OAUTH_TIMEOUT' && !(error.cause instanceof TypeError))

/** Asymmetric signatures only. With HMAC the issuer's public key would be the secret. */
const algorithms = [
  ...['RS256', 'RS384', 'RS512'],
  ...['PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512'],
  ...['EdDSA', 'Ed25519'],
]

/** An OpenID Connect issuer of the operator. Nothing is read from it before the first token. */
export function createOpenIdIssuer(deps: {
  issuer: string
  audience: string
  now: () => Date
  form?: TokenForm
  fetch?: typeof fetch
}): TokenIssuer {
  const { issuer, audience, now } = deps
  assert.equal(issuerUrlProblem(issuer), null)
  assert(audience !== '', 'without an audience, tokens meant for other services would be good here')
  const key = createIssuerKeys({ issuer, now, fetch: deps.fetch ?? fetch })
  const form = deps.form ?? standardForm
  const verifyToken = createAccessTokens({ issuer, audience, algorithms, key, now, form })

  return {
    issuer,
    async verify(token, onRefused) {
      const verified = await verifyToken(token, onRefused)
      if (verified === null) return null
      const { subject, tokenId, claims } = verified
      const verifiedEmail = isTrue(claims.emailVerified) && isName(claims.email) ? claims.email : null
      // Never an operator, whatever its scopes: only the local issuer issues operator tokens.
      // Its `sid` is a session over there.
      const mine = { operator: false, sessionId: null, openedOrg: null }
      return { issuer, subject, tokenId, verifiedEmail, ...mine, expiresAt: claims.exp! }
    },
  }
}

/** Entra writes `xms_edov` as a boolean or as 1. The text "true" is no boolean, whoever writes it. */
const isTrue = (value: unknown): boolean => value === true || value === 1 || value === '1'

/**
 * Records the subject of a user who was found by e-mail: from then on only this subject is the user, even if the address is given to
 * somebody else. It also confirms the address of a user who came by an invitation. False if another login was first.
 */
export async function pinSubject(db: Database, userId: UserId, subject: string, actor: Actor): Promise<boolean> {
  try {
    return await db.begin(async (tx) => {
      const user = await lockUser(tx, userId)
      if (user === null) return false
      if (user.verified_by === null) {
        await verifyIn(tx, actor, { userId, verifiedBy: 'openid' })
        // Whoever used the invitation may be somebody else than the owner of the address.
        await endSessionsOf(tx, userId)
      }
      if (!(await recordSubject(tx, userId, subject))) return false
      for (const orgId of await organizationsOfUser(tx, userId)) {
        await recordAudit(tx, { orgId, action: 'user.subject_pinned', actor, targetId: userId, details: { subject } })
      }
      return true
    })
  } catch (error) {
    if (isUniqueViolation(error, 'users_subject') || isUniqueViolation(error, 'users_email')) return false
    throw error
  }
}

/**
 * Creates the user of a first login, without an organization. Not for somebody whom the operator removed: that is undone by the
 * operator only. Returns the user's id, or null if there is none.
 */
export async function createFromLogin(
  db: Database,
  { subject, verifiedEmail: email }: { subject: string; verifiedEmail: string },
): Promise<UserId | null> {
  try {
    return await db.begin(async (tx) => {
      if (await wasRemoved(tx, { subject, email })) return null
      return (await createUser(tx, { email, name: null, subject }, 'openid')).id
    })
  } catch (error) {
    // Another request created it, or the address belongs to a user with another subject, or is not one.
    if (error instanceof Fault) return null
    throw error
  }
}
