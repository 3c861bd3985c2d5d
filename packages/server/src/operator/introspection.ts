import Type from 'typebox'
import type { Access } from '../access/access.ts'
import {
  type Authenticated,
  addressRefused,
  bearerToken,
  type Identify,
  invalidToken,
  keyLacks,
  keyRestricted,
  loginRequired,
  permissionMissing,
} from '../access/authenticate.ts'
import { allowsAddress, limitReach, type Restrictions } from '../access/restrictions.ts'
import { isRefusedToKeys, type Permission, permissions, permissionsOf, reachOf, roles } from '../access/roles.ts'
import type { Database } from '../db/database.ts'
import { chosen } from '../http/basis.ts'
import { type OperatorCall, operatorRoute, type Route } from '../http/route.ts'
import { closed, component, exampleId, id } from '../http/schemas.ts'
import type { KeyUses } from '../keys/uses.ts'
import { Fault } from '../lib/faults.ts'
import type { DatabaseId, OrgId, UserId } from '../lib/ids.ts'
import { isAddress } from '../lib/network.ts'
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
  async function find(token: string, { orgId, actor }: Question): Promise<Authenticated | null> {
    const found = await deps.identify(token, { orgId, address: actor.address ?? 'unknown' })
    return found !== null && (orgId === null || found.access.membership?.organization.id === orgId) ? found : null
  }

  /** Notes the use of a key. False for one that must not be used from there. */
  function mayComeFrom({ access }: Authenticated, address: string | undefined): boolean {
    if (access.kind !== 'key') return true
    const { id } = access.membership.organization
    if (access.restrictions === null || address === undefined || allowsAddress(access.restrictions, address)) {
      deps.keyUses.note(id, access.keyId)
      return true
    }
    deps.keyUses.noteRefusal(id, access.keyId, address)
    return false
  }

  async function describe(tokens: readonly string[], question: Question) {
    const all = await Promise.all(tokens.map((token) => find(token, question)))
    const found = all.map((one) => (one !== null && mayComeFrom(one, question.address) ? one : null))
    const users = found.flatMap((one) => (one !== null && one.access.membership === null ? [one.access.userId] : []))
    const roles = users.length === 0 ? [] : await rolesOfUsers(deps.db, [...new Set(users)], organizationsMax)
    const rolesOf = Map.groupBy(roles, ({ user_id }) => user_id)
    const isAddressGiven = question.address !== undefined
    return found.map((one) => (one === null ? { active: false } : record(one, { rolesOf, isRefused, isAddressGiven })))
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
      async handler({ actor, body: { token, ...body } }) {
        const [one] = await describe([token], questionOf(body, actor))
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
      async handler({ actor, body: { tokens, ...body } }) {
        return { status: 200, body: await describe(tokens, questionOf(body, actor)) }
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
        const question = questionOf(query, actor)
        const found = await find(token, question)
        if (found === null) {
          const isValid = question.orgId !== null && (await find(token, { ...question, orgId: null })) !== null
          throw isValid ? outsideOrganization() : invalidToken('the token of the caller is not valid')
        }
        // This answer has no place to say that networks were not checked.
        if (restrictionsOf(found.access)?.networks !== undefined && question.address === undefined) {
          throw keyRestricted('This API key is limited to networks, and `address` was not given.')
        }
        if (!mayComeFrom(found, question.address)) throw addressRefused(question.address!)
        checkDatabase(found.access, query.database_id as DatabaseId | undefined)
        const permission = query.permission as Permission | undefined
        if (permission !== undefined) checkPermission(found.access, permission)
        if (permission !== undefined && isRefused(found.access, permission)) throw loginRequired()
        return { status: 204, headers: headersOf(found.access) }
      },
    }),
  ]
}

type IsRefused = (access: Access, permission: Permission) => boolean

/** What is asked about a token. Without the address of the caller, networks are not checked. */
type Question = { orgId: OrgId | null; address: string | undefined; actor: OperatorCall['actor'] }

const questionOf = (
  { organization_id: orgId, address }: { organization_id?: string; address?: string },
  actor: OperatorCall['actor'],
): Question => {
  if (address !== undefined && !isAddress(address)) throw notAnAddress()
  return { orgId: (orgId ?? null) as OrgId | null, address, actor }
}

const notAnAddress = (): Fault =>
  new Fault('request.invalid', { public: 'address: must be an IPv4 or IPv6 address such as 203.0.113.7' })

function record(
  { access, expiresAt }: Authenticated,
  known: { rolesOf: Map<UserId, UserRole[]>; isRefused: IsRefused; isAddressGiven: boolean },
) {
  const { userId, membership } = access
  const { databases, networks } = restrictionsOf(access) ?? {}
  const allowed =
    membership === null
      ? []
      : permissionsOf(membership.role, (reach, permission) =>
          known.isRefused(access, permission) ? 'none' : limitReach(reach, restrictionsOf(access), permission),
        )
  return {
    active: true,
    token_type: typeOf(access),
    sub: userId,
    organization_id: membership?.organization.id ?? null,
    role: membership?.role ?? null,
    permissions: allowed,
    scope: allowed.join(' '),
    ...(access.kind === 'key' && { key_id: access.keyId }),
    ...(databases && { databases }),
    ...(networks && { allowed_networks: networks, address_checked: known.isAddressGiven }),
    ...(expiresAt !== null && { exp: expiresAt }),
    ...(membership === null && {
      organizations: (known.rolesOf.get(userId) ?? []).map(({ org_id, role }) => ({ id: org_id, role })),
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

function checkPermission(access: Access, permission: Permission): void {
  const { membership } = access
  if (membership === null) throw outsideOrganization()
  if (reachOf(membership.role, permission) === 'none') throw permissionMissing(permission, membership.role)
  if (limitReach('all', restrictionsOf(access), permission) === 'none') throw keyLacks(permission)
}

/** A key that is limited to some databases reaches nothing else. */
function checkDatabase(access: Access, id: DatabaseId | undefined): void {
  const databases = restrictionsOf(access)?.databases
  if (databases !== undefined && (id === undefined || !databases.includes(id))) {
    throw keyRestricted('This API key is limited to some databases, and `database_id` names none of them.')
  }
}

const restrictionsOf = (access: Access): Restrictions | null => (access.kind === 'key' ? access.restrictions : null)

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

const address = () =>
  Type.Optional(
    Type.String({
      maxLength: 50,
      description:
        'The address that the request came from. A key that is limited to networks without it is not active. If it is absent, networks are not checked, and the answer says so.',
      examples: ['203.0.113.7'],
    }),
  )

const oneToken = component('IntrospectionRequest', introspected, {
  token: token(),
  organization_id: organizationId(),
  address: address(),
  token_type_hint: Type.Optional(
    Type.String({ maxLength: 100, description: 'Of RFC 7662; makes no difference here.' }),
  ),
})

const manyTokens = component('IntrospectionBatch', introspected, {
  tokens: Type.Array(token(), { minItems: 1, maxItems: tokensMax, description: 'They are answered in this order.' }),
  organization_id: organizationId(),
  address: address(),
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
        description:
          'What the token may do: the permissions of the role, and of a restricted key those that the key has too. With `:own` at the end, only with what the same user created.',
      }),
    ),
    scope: Type.Optional(Type.String({ description: 'The same, separated by spaces (RFC 7662).' })),
    databases: Type.Optional(
      Type.Array(id('db', 'A database.'), { description: 'The only databases that the key reaches; absent: all.' }),
    ),
    allowed_networks: Type.Optional(
      Type.Array(Type.String(), { description: 'The only networks that the key may be used from; absent: all.' }),
    ),
    address_checked: Type.Optional(
      Type.Boolean({
        description: 'With `allowed_networks`: false if no `address` was given, so that you have to check it.',
      }),
    ),
    key_id: Type.Optional(id('key', 'The `id` of the key.')),
    exp: Type.Optional(
      Type.Integer({
        description: 'When the token ends, in seconds since 1970; absent for a key that does not expire.',
      }),
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
        scope: 'organizations:read keys:create:own webhooks:read',
        key_id: exampleId('key'),
      },
    ],
  },
)

const authorizationQuery = closed({
  organization_id: organizationId(),
  address: address(),
  database_id: Type.Optional(
    id('db', 'The database that the request is about. A key that is limited to others is refused.'),
  ),
  permission: Type.Optional(Type.Enum([...permissions], { description: 'A permission that the token must have.' })),
})
