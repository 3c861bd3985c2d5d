import Type from 'typebox'
import type { Access } from '../access/access.ts'
import {
  type Authenticated,
  bearerToken,
  type Identify,
  invalidToken,
  loginRequired,
  permissionMissing,
} from '../access/authenticate.ts'
import { isRefusedToKeys, type Permission, permissions, permissionsOf, reachOf, roles } from '../access/roles.ts'
import type { Database } from '../db/database.ts'
import { chosen } from '../http/basis.ts'
import { type OperatorCall, operatorRoute, type Route } from '../http/route.ts'
import { closed, component, exampleId, id } from '../http/schemas.ts'
import type { KeyUses } from '../keys/rules.ts'
import { Fault } from '../lib/faults.ts'
import type { OrgId, UserId } from '../lib/ids.ts'
import { rolesOfUsers, type UserRole } from '../organizations/sql.ts'

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
      audit: null,
      isRead: true,
      basis: introspected,
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
      audit: null,
      isRead: true,
      basis: introspected,
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
      audit: null,
      basis: introspected,
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

const introspected = chosen(94)

/** As long as a header line may be. */
const tokenCharsMax = 16 * 1024
const tokensMax = 1_000

const token = () =>
  Type.String({
    maxLength: tokenCharsMax,
    examples: ['kh_Example1_ExampleExampleExampleExample0000'],
    description: 'What your caller sent after `Authorization: Bearer`.',
  })

const organizationId = () =>
  Type.Optional(id('org', 'The organization that the request is about. A token that does not reach it is not active.'))

const oneToken = component('IntrospectionRequest', introspected, {
  token: token(),
  organization_id: organizationId(),
  token_type_hint: Type.Optional(
    Type.String({ maxLength: 100, description: 'Of RFC 7662; makes no difference here.' }),
  ),
})

const manyTokens = component('IntrospectionBatch', introspected, {
  tokens: Type.Array(token(), { minItems: 1, maxItems: tokensMax, description: 'They are answered in this order.' }),
  organization_id: organizationId(),
})

const role = (description: string) => Type.Enum([...roles], { description })

const introspection = component(
  'Introspection',
  introspected,
  {
    active: Type.Boolean({ description: 'Whether Keyhook itself would accept the token now.' }),
    token_type: Type.Optional(
      Type.Enum(['api_key', 'login'], { description: 'Which of the two kinds of token it is.' }),
    ),
    sub: Type.Optional(id('usr', 'The user that the token acts as.')),
    organization_id: Type.Optional(
      Type.Union([id('org', 'The organization of the key, or the one that was named.'), Type.Null()], {
        description: 'Null for a login token if none was named.',
      }),
    ),
    role: Type.Optional(
      Type.Union([role('The role of the user in it, now.'), Type.Null()], { description: 'Null like it.' }),
    ),
    permissions: Type.Optional(
      Type.Array(Type.String(), {
        description: 'What the role may do; with `:own` at the end, only with what the same user created.',
      }),
    ),
    key_id: Type.Optional(id('key', 'The `id` of the key.')),
    exp: Type.Optional(
      Type.Integer({ description: 'When a login token ends, in seconds since 1970. Keys do not expire.' }),
    ),
    organizations: Type.Optional(
      Type.Array(closed({ id: id('org', 'The organization.'), role: role('The role there.') }), {
        description: 'For a login token if no organization was named: those of the user, newest first, at most 100.',
      }),
    ),
  },
  {
    examples: [
      {
        active: true,
        token_type: 'api_key',
        sub: exampleId('usr'),
        organization_id: exampleId('org'),
        role: 'member',
        permissions: ['organizations:read', 'keys:create:own', 'webhooks:read'],
        key_id: exampleId('key'),
      },
    ],
  },
)

const authorizationQuery = closed({
  organization_id: organizationId(),
  permission: Type.Optional(Type.Enum([...permissions], { description: 'A permission that the role must have.' })),
})
