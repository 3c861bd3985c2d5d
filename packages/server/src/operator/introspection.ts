import Type from 'typebox'
import { type Access, restrictionsOf } from '../access/access.ts'
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
import { allowsAddress, limitReach } from '../access/restrictions.ts'
import { isRefusedToKeys, type Permission, permissionsOf, reachOf } from '../access/roles.ts'
import type { Database } from '../db/database.ts'
import { type OperatorCall, operatorRoute, type Route } from '../http/route.ts'
import type { KeyUses } from '../keys/uses.ts'
import { Fault } from '../lib/faults.ts'
import type { DatabaseId, OrgId, UserId } from '../lib/ids.ts'
import { isAddress } from '../lib/network.ts'
import { rolesOfUsers, type UserRole } from '../organizations/sql.ts'
import {
  authorizationQuery,
  introspected,
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
        'RFC 7662: whose token this is, and what it may do right now. Takes a form or JSON, and the operator token also as the secret of `Authorization: Basic`, with any client id. A token that Keyhook would refuse is answered `{"active": false}` and nothing else. Do not cache the answer: a revoked key is inactive from the next call on.',
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
        // This answer has no place to say what was not checked.
        if (restrictionsOf(found.access)?.networks !== undefined && question.address === undefined) {
          throw keyRestricted('This API key is limited to networks, and `address` was not given.')
        }
        if (!mayComeFrom(found, question.address)) throw addressRefused(question.address!)
        checkDatabase(found.access, query.database_id as DatabaseId | undefined)
        const permission = query.permission as Permission | undefined
        const { permissions, databases } = restrictionsOf(found.access) ?? {}
        if ((permissions ?? databases) !== undefined && permission === undefined) {
          throw keyRestricted(
            'This API key is limited to some permissions or databases, and `permission` was not given.',
          )
        }
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
  const restrictions = restrictionsOf(access)
  if (limitReach('all', restrictions, permission) === 'none') throw keyLacks(permission, restrictions)
}

/** A key that is limited to some databases reaches nothing else. */
function checkDatabase(access: Access, id: DatabaseId | undefined): void {
  const databases = restrictionsOf(access)?.databases
  if (databases !== undefined && (id === undefined || !databases.includes(id))) {
    throw keyRestricted('This API key is limited to some databases, and `database_id` names none of them.')
  }
}
