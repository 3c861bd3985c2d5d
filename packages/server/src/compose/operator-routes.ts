import type { Authenticate } from '../http/authenticate.ts'
import { introspectionRoutes } from '../http/operator/introspection.ts'
import { operatorMemberRoutes } from '../http/operator/members.ts'
import { openOrganizationRoutes } from '../http/operator/open-organization.ts'
import { operatorOrganizationRoutes } from '../http/operator/organizations.ts'
import { operatorOverviewRoutes } from '../http/operator/overview.ts'
import { operatorTokenRoutes } from '../http/operator/tokens.ts'
import { operatorUserRoutes } from '../http/operator/users.ts'
import type { Route } from '../http/route.ts'
import { createLocalIssuer } from '../login/local-issuer.ts'
import {
  createOrganization,
  createUser,
  ensureNoMember,
  ensureNoUser,
  setMember,
  verifyUser,
} from '../operator/directory.ts'
import { issueOperatorToken, type SignOperatorToken } from '../operator/tokens.ts'
import type { Installation } from '../startup/open.ts'
import type { KeyUses } from '../store/key-uses.ts'

/** What operators do over HTTP besides events and invoices. The commands use the same functions. */
export function composeOperatorRoutes(
  { db, masterKeys, config }: Pick<Installation, 'db' | 'masterKeys' | 'config'>,
  { authenticate, keyUses }: { authenticate: Authenticate; keyUses: KeyUses },
): Route[] {
  const sign = signOperatorTokens(masterKeys)
  const issuer = createLocalIssuer({ masterKeys, now: () => new Date() })
  return [
    ...introspectionRoutes({
      db,
      identify: authenticate.identify,
      keyUses,
      keysRequireLogin: config.keysRequireLogin === 'on',
    }),
    ...operatorOverviewRoutes({ db }),
    ...openOrganizationRoutes({
      db,
      issue: ({ orgId, actor: { tokenId, sessionId }, ttlSeconds }) =>
        issuer.issue({
          subject: 'operator',
          operator: true,
          openedOrg: orgId,
          ttlSeconds,
          // The id of the operator token: when that is revoked, this one is refused too.
          ...(tokenId !== null && { tokenId }),
          ...(sessionId && { sessionId }),
        }),
    }),
    ...operatorOrganizationRoutes({ db, create: createOrganization }),
    ...operatorUserRoutes({
      db,
      create: createUser,
      remove: (actor, userId) => ensureNoUser(db, actor, { userId }),
      verify: (actor, userId) => verifyUser(db, actor, { userId }),
    }),
    ...operatorMemberRoutes({
      db,
      set: (actor, member) => setMember(db, actor, member),
      remove: (actor, member) => ensureNoMember(db, actor, member),
    }),
    ...operatorTokenRoutes({ db, issue: (tx, actor, request) => issueOperatorToken(tx, sign, actor, request) }),
  ]
}

export function signOperatorTokens(masterKeys: Installation['masterKeys']): SignOperatorToken {
  const issuer = createLocalIssuer({ masterKeys, now: () => new Date() })
  return (token) => issuer.issue({ subject: 'operator', operator: true, ...token })
}
