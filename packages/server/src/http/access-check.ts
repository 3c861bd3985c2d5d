import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Access } from '../access/access.ts'
import type { Authenticate, Authenticated } from '../access/authenticate.ts'
import { loginRequired, permissionMissing, readingOnly } from '../access/faults.ts'
import { isRefusedToKeys, type Permission, type Reach, reachOf } from '../access/roles.ts'
import { isId, type KeyId, type OrgId } from '../lib/ids.ts'
import { noAccess } from './path-parameters.ts'
import { clientAddress } from './request-log.ts'
import type { Call, MemberRoute, OperatorCall, Route } from './route.ts'

/** Remembers that a key was used, without a query. */
export type NotesKeyUses = { note(orgId: OrgId, keyId: KeyId): void }

type Deps = {
  authenticate: Pick<Authenticate, 'member' | 'operator'>
  keyUses: NotesKeyUses
  /** The operator's setting: API keys do not manage API keys. */
  keysRequireLogin: boolean
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set by the access check; the body is not read before. */
    caller: Pick<Call, 'access' | 'actor' | 'reach'> | Pick<OperatorCall, 'actor'> | null
    /** The access check ran before the body had arrived: it runs again afterwards. */
    isBodyPending: boolean
  }
}

/** Authenticates the caller and checks the permission of the route. */
export type AccessCheck = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void

export const createAccessCheck = (route: Route, deps: Deps): AccessCheck =>
  route.needs === 'operator' ? operatorCheck(deps) : memberCheck(route, deps)

function operatorCheck({ authenticate }: Deps): AccessCheck {
  return (request, _reply, done) => {
    authenticate.operator(request.headers.authorization, clientAddress(request)).then((actor) => {
      request.caller = { actor }
      done()
    }, done)
  }
}

function memberCheck(route: MemberRoute, { authenticate, keyUses, keysRequireLogin }: Deps): AccessCheck {
  const refusesKeys = isRefusedToKeys(route.needs, { keysRequireLogin })
  const inOrganization = route.path.includes(':orgId')

  function check(request: FastifyRequest, { access, actor }: Authenticated, orgId: OrgId | null): void {
    if (access.kind === 'key') keyUses.note(access.membership.organization.id, access.keyId)
    if (inOrganization && orgId === null) throw noAccess(orgOf(request), 'the organization id has the wrong form')
    const reach = orgId === null ? 'all' : authorize(access, orgId, route.needs)
    if (refusesKeys && access.kind === 'key') throw loginRequired()
    if (access.kind === 'operator' && !isForReaders(route)) throw readingOnly()
    request.caller = { access, actor, reach }
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

/** How far the caller's permission reaches in that organization. Throws when it does not. */
function authorize(access: Access, orgId: OrgId, permission: Permission): Exclude<Reach, 'none'> {
  const { membership } = access
  if (membership === null || membership.organization.id !== orgId) {
    throw noAccess(orgId, `${access.userId} has no access to ${orgId} with this credential`)
  }
  const reach = reachOf(membership.role, permission)
  if (reach === 'none') throw permissionMissing(permission, membership.role)
  return reach
}
