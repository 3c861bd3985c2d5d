import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { TSchema } from 'typebox'
import { keyRestricted } from '../access/authenticate.ts'
import type { Fault } from '../lib/faults.ts'
import { type AccessCheck, type AccessDeps, createAccessCheck } from './access-check.ts'
import { type Answered, createApp, type HttpLimits, isRead, type RequestLog } from './app.ts'
import { type BodyRoom, createBodyRoom, waitForRoom } from './body-room.ts'
import { createIdCheck, readForm } from './decode.ts'
import { sendEventStream } from './event-stream.ts'
import { createOnce, idempotencyKeyOf, takesIdempotencyKey } from './idempotency.ts'
import { type PageQuery, sendList } from './lists.ts'
import {
  type Answer,
  type Call,
  isBodyOptional,
  type MemberRoute,
  noBody,
  type OperatorCall,
  type OperatorRoute,
  type Route,
} from './route.ts'

/**
 * Every request takes the same steps: authenticate, authorize, decode, handler, encode. The route table names the permission;
 * there is no other way to add a route that reads an organization.
 */
export function createHttpServer(
  deps: AccessDeps & {
    routes: readonly Route[]
    recheckBody: RecheckBody
    limits: HttpLimits
    trustedProxies: readonly string[] | null
    log: Logger
    draining?: AbortSignal
    onAnswer?: (answer: Answered) => void
  },
): FastifyInstance {
  const { app, log } = createApp(deps)
  const room = createBodyRoom()
  app.decorateRequest('work', null)
  for (const route of deps.routes) {
    if (!route.takesForm) addRoute(app, route, { ...deps, log, room })
    // In a scope of its own: no other route parses forms.
    else {
      app.register(async (scope) => {
        scope.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'buffer' }, readForm)
        addRoute(scope, route, { ...deps, log, room })
      })
    }
  }
  return app
}

/**
 * Some bodies that fail validation may be valid all the same, for example by an event type that is declared now. Null for a schema
 * without such parts; otherwise what throws if the body is invalid.
 */
export type RecheckBody = (schema: TSchema) => ((request: FastifyRequest) => Promise<void>) | null

type RouteDeps = AccessDeps & { recheckBody: RecheckBody; log: RequestLog; room: BodyRoom }

function addRoute(app: FastifyInstance, route: Route, deps: RouteDeps): void {
  const accessCheck = createAccessCheck(route, deps)
  const recheck = route.body === undefined ? null : deps.recheckBody(route.body)
  const run = createRunner(route, recheck)
  const needsBody = !isBodyOptional(route)
  const bodySchema = route.body ?? (isRead(route.method) ? undefined : noBody)
  app.route({
    method: route.method,
    url: route.path,
    schema: { ...(route.query && { querystring: route.query }), ...(bodySchema && { body: bodySchema }) },
    // Then the runner throws the error, unless the second check accepts the body.
    attachValidation: recheck !== null,
    config: { passesOnNumbers: route.passesOnNumbers ?? false, needsBody, isRead: route.isRead ?? false },
    onRequest: accessCheck,
    ...(!isRead(route.method) && {
      preParsing(request, reply, payload, done) {
        if (route.bodyBytesMax === undefined) prepareBody(request, reply, payload, done)
        else prepareBodyInRoom(deps.room, request, reply, payload, done)
      },
      // A body may take 30 seconds to arrive, and the key may be revoked meanwhile.
      preValidation(request, reply, done) {
        // Not for `null`, which was sent.
        if (!needsBody && request.body === undefined) request.body = {}
        return request.isBodyPending ? accessCheck(request, reply, done) : done()
      },
    }),
    ...(route.bodyBytesMax !== undefined && { bodyLimit: route.bodyBytesMax }),
    handler(request, reply) {
      const answer = run(request)
      if (!(answer instanceof Promise)) return send(reply, answer, accessCheck, deps.log)
      request.work = answer
      answer.then((ready) => send(reply, ready, accessCheck, deps.log)).catch((error) => reply.send(error))
    },
  })
}

const withoutKey = createOnce(null)

/** Runs the handler of a route with what the access check and the validation have produced. */
function createRunner(
  route: Route,
  recheck: ReturnType<RecheckBody>,
): (request: FastifyRequest) => Answer | Promise<Answer> {
  const checkIds = createIdCheck(route.path)
  const isKeyed = takesIdempotencyKey(route)

  function run(request: FastifyRequest, body: unknown): Answer | Promise<Answer> {
    const params = request.params as Record<string, string>
    checkIds(params)
    const caller = request.caller!
    const once = isKeyed ? createOnce(idempotencyKeyOf(request, caller)) : withoutKey
    const given = { ...caller, params, query: request.query, body, headers: request.headers, once }
    if (route.needs === 'operator') return (route as OperatorRoute).handler(given as OperatorCall)
    const call = given as unknown as Call
    call.userId = call.access.userId
    call.orgId = call.params.orgId as Call['orgId']
    return (route as MemberRoute).handler(call)
  }

  const { decode } = route
  if (recheck !== null) {
    return async (request) => {
      await recheck(request)
      return run(request, decode === undefined ? request.body : await decode(request.body))
    }
  }
  if (decode === undefined) return (request) => run(request, request.body)
  return async (request) => run(request, await decode(request.body))
}

function send(reply: FastifyReply, answer: Answer, accessCheck: AccessCheck, log: RequestLog): void {
  reply.code(answer.status)
  if ('stream' in answer || 'list' in answer) return void sendLong(reply, answer, accessCheck, log)
  log.answered(reply)
  if (answer.status === 204) return void reply.headers(answer.headers ?? {}).send()
  if (answer.status === 201) reply.header('location', answer.location)
  if ('isReplayed' in answer) reply.header('idempotency-replayed', 'true')
  reply.type('application/json; charset=utf-8').send(JSON.stringify(answer.body))
}

type LongAnswer = Extract<Answer, { list: unknown } | { stream: unknown }>

/** An answer that takes long: access is checked again on the way. */
function sendLong(reply: FastifyReply, answer: LongAnswer, accessCheck: AccessCheck, log: RequestLog): void {
  const before = reachOf(reply.request)
  const recheckAccess = () =>
    new Promise<void>((resolve, reject) =>
      accessCheck(reply.request, reply, (error) => {
        if (error !== undefined) reject(error)
        // What was not sent yet was selected by the reach that the caller had.
        else if (reachOf(reply.request) === before) resolve()
        else reject(keyRestricted('What the caller may do was changed during this answer. Repeat the request.'))
      }),
    )
  const onAborted = (error: unknown) => log.aborted(reply, error)
  if ('stream' in answer) {
    log.answered(reply)
    return void sendEventStream(reply, answer.stream, { recheckAccess, onAborted })
  }
  // A list can still fail, for its cursor or because of the database: it is logged after the first page.
  sendList(reply, answer.list, reply.request.query as PageQuery, { recheckAccess, onAborted })
    .then(() => log.answered(reply))
    .catch((error) => reply.send(error))
}

const reachOf = ({ caller }: FastifyRequest): string =>
  caller !== null && 'reach' in caller ? JSON.stringify([caller.reach, caller.databases]) : ''

/** For a route that takes large bodies. */
export function prepareBodyInRoom(
  room: BodyRoom,
  request: FastifyRequest,
  reply: FastifyReply,
  payload: Readable,
  done: (error: Fault | null, payload?: Readable) => void,
): void {
  waitForRoom(room, request, reply, (fault) =>
    fault === undefined ? prepareBody(request, reply, payload, done) : done(fault),
  )
}

/** Replaces a stream that has ended: it emits no `end` again, and the parser waits for one. */
function prepareBody(
  request: FastifyRequest,
  reply: FastifyReply,
  payload: Readable,
  done: (error: null, payload: Readable) => void,
): void {
  const { complete, readableEnded, httpVersion } = request.raw
  request.isBodyPending ||= !complete && !readableEnded
  const { expect, 'content-length': length = 0, 'transfer-encoding': coding } = request.headers
  const { config, bodyLimit } = request.routeOptions
  // `curl -X DELETE -d ''` sends an empty body with the type of a form.
  if (Number(length) === 0 && coding === undefined && !config.needsBody) delete request.headers['content-type']
  // HTTP/1.0 has no 100 Continue.
  if (expect !== undefined && Number(length) <= bodyLimit && httpVersion !== '1.0') reply.raw.writeContinue()
  done(null, readableEnded ? Readable.from([]) : payload)
}
