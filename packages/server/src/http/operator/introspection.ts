import Type from 'typebox'
import type { Database } from '../../db/database.ts'
import { isRefusedToKeys, type Permission, permissionsOf, reachOf } from '../../domain/roles.ts'
import { Fault } from '../../kernel/faults.ts'
import type { OrgId, UserId } from '../../kernel/ids.ts'
import type { Access } from '../../store/access.ts'
import type { KeyUses } from '../../store/key-uses.ts'
import { rolesOfUsers, type UserRole } from '../../store/memberships.ts'
import { type Authenticated, bearerToken, type Identify } from '../authenticate.ts'
import { invalidToken, loginRequired, permissionMissing } from '../problems.ts'
import { type OperatorCall, operatorRoute, type Route } from '../route.ts'
import {
  authorizationQuery,
  introspected as here,
  introspection,
  manyTokens,
  oneToken,
  tokensMax,
} from './introspection-schemas.ts'

const organizationsMax = 100
const callerHeader = 'X-Original-Authorization'

/** RFC 7662, for gateways: whose token is this, and what may it do? Checked like a request to Keyhook; nothing is cached. */
export function introspectionRoutes(deps: {
  db: Database
  identify: Identify
  keyUses: KeyUses
  keysRequireLogin: boolean
}): Route[] {
  const isRefused: IsRefused = (access, permission) => access.kind === 'key' && isRefusedToKeys(permission, deps)

  /** Null if a request with the token would be refused: the token is not valid, or it does not reach the organization. */
  async function find(token: string, orgId: OrgId | null, actor: OperatorCall['actor']): Promise<Authenticated | null> {
    const found = await deps.identify(token, { orgId, address: actor.address ?? 'unknown' })
    if (found === null) return null
    const { access } = found
    if (access.kind === 'key') deps.keyUses.note(access.membership.organization.id, access.keyId)
    return orgId === null || access.membership?.organization.id === orgId ? found : null
  }

  async function describe(tokens: readonly string[], orgId: OrgId | null, actor: OperatorCall['actor']) {
    const found = await Promise.all(tokens.map((token) => find(token, orgId, actor)))
    const users = found.flatMap((one) => (one !== null && one.access.membership === null ? [one.access.userId] : []))
    const roles = users.length === 0 ? [] : await rolesOfUsers(deps.db, [...new Set(users)], organizationsMax)
    const rolesOf = Map.groupBy(roles, ({ user_id }) => user_id)
    return found.map((one) => (one === null ? { active: false } : record(one, rolesOf, isRefused)))
  }

  return [
    operatorRoute({
      method: 'POST',
      path: '/operator/v1/introspect',
      needs: 'operator',
      audit: null,
      isRead: true,
      basis: here,
      tag: 'Operator',
      summary: 'Introspect a token',
      description:
        'RFC 7662: whose token this is, and what it may do right now. Takes a form or JSON. A token that Keyhook would refuse is answered `{"active": false}` and nothing else. Do not cache the answer: a revoked key is inactive from the next call on.',
      body: oneToken,
      takesForm: true,
      success: { status: 200, description: 'What the token is.', schema: introspection },
      async handler({ actor, body: { token, organization_id: orgId = null } }) {
        const [one] = await describe([token], orgId as OrgId | null, actor)
        return { status: 200, body: one! }
      },
    }),
    operatorRoute({
      method: 'POST',
      path: '/operator/v1/introspect/batch',
      needs: 'operator',
      audit: null,
      isRead: true,
      basis: here,
      tag: 'Operator',
      summary: 'Introspect tokens',
      description: `The same for up to ${tokensMax} tokens, answered in their order.`,
      body: manyTokens,
      bodyBytesMax: 8 * 1024 * 1024,
      success: { status: 200, description: 'What each token is.', schema: Type.Array(introspection) },
      async handler({ actor, body: { tokens, organization_id: orgId = null } }) {
        return { status: 200, body: await describe(tokens, orgId as OrgId | null, actor) }
      },
    }),
    operatorRoute({
      method: 'GET',
      path: '/operator/v1/authorize',
      needs: 'operator',
      audit: null,
      basis: here,
      tag: 'Operator',
      summary: 'Authorize a request',
      description: `The same question by status, for proxies that send a subrequest without a body, such as \`auth_request\` of nginx. The operator token is in \`Authorization\`, that of the caller in \`${callerHeader}\`.`,
      query: authorizationQuery,
      headers: [{ name: callerHeader, description: 'The `Authorization` header of your caller, as it was sent.' }],
      success: {
        status: 204,
        description: 'The token is valid, reaches the organization and has the permission.',
        headers: [
          { name: 'X-Keyhook-User', description: 'The user that the token acts as.' },
          { name: 'X-Keyhook-Token-Type', description: '`api_key` or `login`.' },
          { name: 'X-Keyhook-Key', description: 'The `id` of the key; only for keys.' },
          { name: 'X-Keyhook-Organization', description: 'The organization, unless it is open.' },
          { name: 'X-Keyhook-Role', description: 'The role of the user in it.' },
        ],
      },
      async handler({ actor, headers, query }) {
        const token = bearerToken(headers[callerHeader.toLowerCase()] as string | undefined)
        const orgId = (query.organization_id ?? null) as OrgId | null
        const found = await find(token, orgId, actor)
        if (found === null) {
          const isValid = orgId !== null && (await find(token, null, actor)) !== null
          throw isValid ? outsideOrganization() : invalidToken('the token of the caller is not valid')
        }
        const permission = query.permission as Permission | undefined
        if (permission !== undefined) checkPermission(found.access, permission)
        if (permission !== undefined && isRefused(found.access, permission)) throw loginRequired()
        return { status: 204, headers: headersOf(found.access) }
      },
    }),
  ]
}

type IsRefused = (access: Access, permission: Permission) => boolean

function record({ access, expiresAt }: Authenticated, rolesOf: Map<UserId, UserRole[]>, isRefused: IsRefused) {
  const { userId, membership } = access
  return {
    active: true,
    token_type: typeOf(access),
    sub: userId,
    organization_id: membership?.organization.id ?? null,
    role: membership?.role ?? null,
    permissions:
      membership === null ? [] : permissionsOf(membership.role, (permission) => isRefused(access, permission)),
    ...(access.kind === 'key' && { key_id: access.keyId }),
    ...(expiresAt !== null && { exp: expiresAt }),
    ...(membership === null && {
      organizations: (rolesOf.get(userId) ?? []).map(({ org_id, role }) => ({ id: org_id, role })),
    }),
  }
}

const typeOf = ({ kind }: Access): string => (kind === 'key' ? 'api_key' : 'login')

/** Ids and words of ours only: no name or address that a person chose gets into a header. */
const headersOf = (access: Access): Record<string, string> => ({
  'x-keyhook-user': access.userId,
  'x-keyhook-token-type': typeOf(access),
  ...(access.kind === 'key' && { 'x-keyhook-key': access.keyId }),
  ...(access.membership !== null && {
    'x-keyhook-organization': access.membership.organization.id,
    'x-keyhook-role': access.membership.role,
  }),
})

/** 403 and not 404: nginx takes any other status for a failure of the check. */
const outsideOrganization = (): Fault =>
  new Fault('auth.permission_missing', { public: 'The token does not reach this organization.' })

function checkPermission({ membership }: Access, permission: Permission): void {
  if (membership === null) throw outsideOrganization()
  if (reachOf(membership.role, permission) === 'none') throw permissionMissing(permission, membership.role)
}
