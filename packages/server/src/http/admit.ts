import type { FastifyReply, FastifyRequest } from 'fastify'
import { notFound } from '../kernel/faults.ts'
import { isId, type OrgId } from '../kernel/ids.ts'
import type { KeyUses } from '../store/key-uses.ts'
import type { Authenticate, Authenticated } from './authenticate.ts'
import { authorize } from './authorize.ts'
import { clientAddress } from './client-address.ts'
import { createIdCheck } from './path-parameters.ts'
import type { Answer, Call, MemberRoute, OperatorCall, OperatorRoute, Route } from './route.ts'

type Deps = { authenticate: Authenticate; keyUses: KeyUses }

declare module 'fastify' {
  interface FastifyRequest {
    /** What authentication and authorization found out; the body is not read before this is set. */
    admitted: Pick<Call, 'access' | 'actor' | 'reach'> | Pick<OperatorCall, 'actor'> | null
    /** The gate was passed before the body was here: it is asked again once it is. */
    isBodyLate: boolean
  }
}

/** The gate of a route: who is asking, and may they? Runs before the body is read. */
export const gateOf = (route: Route, deps: Deps): Gate =>
  route.needs === 'operator' ? operatorGate(deps) : memberGate(route, deps)

export type Gate = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void

function operatorGate({ authenticate }: Deps): Gate {
  return (request, _reply, done) => {
    authenticate.operator(request.headers.authorization, clientAddress(request)).then((actor) => {
      request.admitted = { actor }
      done()
    }, done)
  }
}

function memberGate(route: MemberRoute, { authenticate, keyUses }: Deps): Gate {
  const inOrganization = route.path.includes(':orgId')

  function admit(request: FastifyRequest, { access, actor }: Authenticated, orgId: OrgId | null): void {
    if (access.kind === 'key') keyUses.note(access.membership.organization.id, access.keyId)
    if (inOrganization && orgId === null) throw notFound('the organization id is not one by its shape')
    const reach = orgId === null ? 'all' : authorize(access, orgId, route.needs)
    request.admitted = { access, actor, reach }
  }

  return (request, _reply, done) => {
    const asked = inOrganization ? (request.params as { orgId: string }).orgId : null
    const orgId = asked !== null && isId('org', asked) ? asked : null
    const asksFor = { orgId, address: clientAddress(request) }
    authenticate.member(request.headers.authorization, asksFor, (error, authenticated) => {
      if (authenticated === null) return done(error as Error)
      try {
        admit(request, authenticated, orgId)
      } catch (fault) {
        return done(fault as Error)
      }
      done()
    })
  }
}

/** Runs the handler with what the gate found out and what validation let through, if the ids of the path can be any. */
export function runnerOf(route: Route): (request: FastifyRequest) => Answer | Promise<Answer> {
  const checkIds = createIdCheck(route.path)

  function run(request: FastifyRequest, body: unknown): Answer | Promise<Answer> {
    const params = request.params as Record<string, string>
    checkIds(params)
    const given = { ...request.admitted!, params, query: request.query, body }
    if (route.needs === 'operator') return (route as OperatorRoute).handler(given as OperatorCall)
    const call = given as Call
    call.userId = call.access.userId
    call.orgId = call.params.orgId as Call['orgId']
    return (route as MemberRoute).handler(call)
  }

  const { decode } = route
  if (decode === undefined) return (request) => run(request, request.body)
  return async (request) => run(request, await decode(request.body))
}
