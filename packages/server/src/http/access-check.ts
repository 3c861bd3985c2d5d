import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Access, restrictionsOf } from '../access/access.ts'
import {
  type Authenticate,
  type Authenticated,
  addressRefused,
  bearerOfClient,
  databaseKeyRefused,
  keyLacks,
  loginRequired,
  otherDatabases,
  permissionMissing,
  readingOnly,
} from '../access/authenticate.ts'
import { allowsAddress, limitReach } from '../access/restrictions.ts'
import { isRefusedToKeys, type Permission, type Reach, reachOf } from '../access/roles.ts'
import { type DatabaseId, isId, type KeyId, type OrgId } from '../lib/ids.ts'
import { clientAddress } from './app.ts'
import { noAccess } from './problems.ts'
import type { Call, MemberRoute, OperatorCall, OperatorRoute, Route } from './route.ts'

/** Remembers that a key was used, or refused because of the address, without a query. */
type NotesKeyUses = {
  note(orgId: OrgId, keyId: KeyId): void
  noteRefusal(orgId: OrgId, keyId: KeyId, address: string): void
}

export type AccessDeps = {
  authenticate: Pick<Authenticate, 'member' | 'operator'>
  keyUses: NotesKeyUses
  /** Throws when the key or its organization has sent too many requests. */
  requestLimits: { count(orgId: OrgId, keyId: KeyId): void }
  /** The operator's setting: API keys do not manage API keys. */
  keysRequireLogin: boolean
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by the access check; the body is not read before. */
    caller: Pick<Call, 'access' | 'actor' | 'reach' | 'databases'> | Pick<OperatorCall, 'actor'> | null
    /** The access check ran before the body had arrived: it runs again afterwards. */
    isBodyPending: boolean
  }
}

/** What a route needs, and whether API keys are refused there whatever they may do. */
type Need = { permission: Permission; refusesKeys: boolean }

type KeyAccess = Extract<Access, { kind: 'key' }>

/** Authenticates the caller and checks the permission of the route. */
export type AccessCheck = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void

export const createAccessCheck = (route: Route, deps: AccessDeps): AccessCheck =>
  route.needs === 'operator' ? operatorCheck(route, deps) : memberCheck(route, deps)

function operatorCheck({ takesForm }: OperatorRoute, { authenticate }: AccessDeps): AccessCheck {
  return (request, _reply, done) => {
    const { authorization } = request.headers
    const given = takesForm ? bearerOfClient(authorization) : authorization
    authenticate.operator(given, clientAddress(request)).then((actor) => {
      request.caller = { actor }
      done()
    }, done)
  }
}

function memberCheck(route: MemberRoute, deps: AccessDeps): AccessCheck {
  const { authenticate, keyUses, requestLimits, keysRequireLogin } = deps
  const need: Need = { permission: route.needs, refusesKeys: isRefusedToKeys(route.needs, { keysRequireLogin }) }
  const inOrganization = route.path.includes(':orgId')

  function check(request: FastifyRequest, { access, actor }: Authenticated, orgId: OrgId | null): void {
    if (access.kind === 'key') {
      checkAddress(access, actor.address!)
      // Later checks of the same request count nothing.
      if (request.caller === null) requestLimits.count(access.membership.organization.id, access.keyId)
    }
    if (inOrganization && orgId === null) throw noAccess(orgOf(request), 'the organization id has the wrong form')
    const reach = orgId === null ? reachOfCaller(access, need) : authorize(access, orgId, need)
    if (access.kind === 'operator' && !isForReaders(route)) throw readingOnly()
    const databases = restrictionsOf(access)?.databases ?? null
    if (databases !== null) checkDatabases(request, databases)
    request.caller = { access, actor, reach, databases }
  }

  function checkAddress({ keyId, membership, restrictions }: KeyAccess, address: string): void {
    const { id } = membership.organization
    if (restrictions !== null && !allowsAddress(restrictions, address)) {
      keyUses.noteRefusal(id, keyId, address)
      throw addressRefused(address)
    }
    keyUses.note(id, keyId)
  }

  function checkDatabases(request: FastifyRequest, databases: readonly DatabaseId[]): void {
    if (!route.isForDatabaseKeys) throw databaseKeyRefused()
    const { databaseId } = request.params as { databaseId?: DatabaseId }
    if (databaseId !== undefined && !databases.includes(databaseId)) throw otherDatabases()
  }

  return (request, _reply, done) => {
    const named = inOrganization ? orgOf(request) : null
    const orgId = named !== null && isId('org', named) ? named : null
    const target = { orgId, address: clientAddress(request) }
    authenticate.member(request.headers.authorization, target, (error, authenticated) => {
      if (authenticated === null) return done(error as Error)
      try {
        check(request, authenticated, orgId)
      } catch (fault) {
        return done(fault as Error)
      }
      done()
    })
  }
}

const orgOf = (request: FastifyRequest): string => (request.params as { orgId: string }).orgId

/** An operator reads what belongs to the organization, and changes nothing. */
const isForReaders = ({ method, path, audit }: MemberRoute): boolean =>
  method === 'GET' && audit === null && path.includes(':orgId')

/** The same where the path names no organization. */
const reachOfCaller = (access: Access, need: Need): Exclude<Reach, 'none'> =>
  access.kind === 'key' ? authorize(access, access.membership.organization.id, need) : 'all'

/** How far the caller's permission reaches in that organization. Throws when it does not. */
function authorize(access: Access, orgId: OrgId, { permission, refusesKeys }: Need): Exclude<Reach, 'none'> {
  const { membership } = access
  if (membership === null || membership.organization.id !== orgId) {
    throw noAccess(orgId, `${access.userId} has no access to ${orgId} with this credential`)
  }
  const ofRole = reachOf(membership.role, permission)
  if (ofRole === 'none') throw permissionMissing(permission, membership.role)
  // Before the permissions of the key: no key can have this one.
  if (refusesKeys && access.kind === 'key') throw loginRequired()
  const reach = limitToKey(access, ofRole, permission)
  if (reach === 'none') throw keyLacks(permission, restrictionsOf(access))
  return reach
}

const limitToKey = (access: Access, ofRole: Reach, permission: Permission): Reach =>
  access.kind === 'key' ? limitReach(ofRole, access.restrictions, permission) : ofRole

/** Whether a caller whom the route has let in may do this too, for parts of an answer that need more. */
export const mayAlso = (access: Access, permission: Permission): boolean =>
  access.membership !== null && limitToKey(access, reachOf(access.membership.role, permission), permission) !== 'none'
