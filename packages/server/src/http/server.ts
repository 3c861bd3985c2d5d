import fastify, {
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify'
import type { Logger } from 'pino'
import { Fault, notFound } from '../kernel/faults.ts'
import { newId } from '../kernel/ids.ts'
import type { KeyUses } from '../store/key-uses.ts'
import { gateOf, run } from './admit.ts'
import type { Authenticate } from './authenticate.ts'
import { readJson } from './body.ts'
import { answerBrokenHttp, requestMsMax } from './broken-http.ts'
import { faultOf } from './fault-of.ts'
import { type PageQuery, sendList } from './lists.ts'
import { methodsAt } from './methods.ts'
import { sendProblem } from './problems.ts'
import { createRequestLog } from './request-log.ts'
import type { Answer, Route } from './route.ts'
import { createValidatorCompiler } from './validation.ts'

export type HttpLimits = { requestBytesMax: number }

/**
 * Every request walks the same way: authenticate, authorize, decode, handler, encode. Which permission is asked for
 * stands in the route table; there is no other way to add a route that reads an organization.
 */
export function createHttpServer(deps: {
  routes: readonly Route[]
  authenticate: Authenticate
  keyUses: KeyUses
  limits: HttpLimits
  trustedProxies: readonly string[] | null
  log: Logger
}): FastifyInstance {
  const app: FastifyInstance = fastify({
    loggerInstance: deps.log as FastifyBaseLogger,
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: deps.limits.requestBytesMax,
    requestTimeout: requestMsMax,
    trustProxy: deps.trustedProxies === null ? false : [...deps.trustedProxies],
    genReqId: () => newId('req'),
    forceCloseConnections: 'idle',
    clientErrorHandler: answerBrokenHttp,
    routerOptions: { maxParamLength: 256 },
  })
  app.setValidatorCompiler(createValidatorCompiler())
  // What a route answers is decided by its own record function; see the conformance tests for the proof.
  app.setSerializerCompiler(() => JSON.stringify)
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, readJson)
  app.decorateRequest('admitted', null)
  app.addHook('onSend', noStore)
  app.addHook('onResponse', createRequestLog(deps.log))
  app.setErrorHandler(answerError)
  app.setNotFoundHandler(async (request, reply) => answerNoRoute(deps.routes, request, reply))
  for (const route of deps.routes) addRoute(app, route, deps)
  return app
}

function addRoute(app: FastifyInstance, route: Route, deps: { authenticate: Authenticate; keyUses: KeyUses }): void {
  app.route({
    method: route.method,
    url: route.path,
    schema: { ...(route.query && { querystring: route.query }), ...(route.body && { body: route.body }) },
    onRequest: gateOf(route, deps),
    handler: async (request, reply) => send(reply, await run(route, request)),
  })
}

function send(reply: FastifyReply, answer: Answer): FastifyReply | Promise<FastifyReply> {
  reply.code(answer.status)
  if ('list' in answer) return sendList(reply, answer.list, reply.request.query as PageQuery)
  if (answer.status === 204) return reply.send()
  if (answer.status === 201) reply.header('location', answer.location)
  return reply.type('application/json; charset=utf-8').send(JSON.stringify(answer.body))
}

/** Secrets pass through here once, and answers change with every revocation: nothing may be kept on the way. */
function noStore(
  _request: FastifyRequest,
  reply: FastifyReply,
  payload: unknown,
  done: (e: null, p: unknown) => void,
): void {
  if (!reply.hasHeader('cache-control')) reply.header('cache-control', 'no-store')
  done(null, payload)
}

function answerError(error: unknown, request: FastifyRequest, reply: FastifyReply): void {
  const fault = faultOf(error)
  if (fault.status >= 500) request.log.error({ err: error, code: fault.code }, 'request.failed')
  else if (fault.internal) request.log.debug({ code: fault.code, why: fault.internal }, 'request.refused')
  sendProblem(reply, fault)
}

function answerNoRoute(routes: readonly Route[], request: FastifyRequest, reply: FastifyReply): void {
  const allowed = methodsAt(routes, request.url)
  const fault =
    allowed.length === 0
      ? notFound('no route has this path')
      : new Fault('request.method_not_allowed', {
          public: `This path takes ${allowed.join(', ')}.`,
          headers: { allow: allowed.join(', ') },
        })
  sendProblem(reply, fault)
}
