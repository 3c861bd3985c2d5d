import { Readable } from 'node:stream'
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import { Fault, notFound } from '../kernel/faults.ts'
import type { KeyUses } from '../store/key-uses.ts'
import { type Gate, gateOf, run } from './admit.ts'
import type { Authenticate } from './authenticate.ts'
import { readJson } from './body.ts'
import {
  answerBrokenHttp,
  answerExpectation,
  hostFault,
  isHost,
  noProxy,
  requestMsMax,
  skipBody,
} from './broken-http.ts'
import { watchConnections } from './connections.ts'
import { faultOf } from './fault-of.ts'
import { type PageQuery, sendList } from './lists.ts'
import { createMethodTable } from './methods.ts'
import { sendProblem } from './problems.ts'
import { createRequestIds, createRequestLog, type RequestLog } from './request-log.ts'
import { type Answer, noBody, type Route } from './route.ts'
import { createValidatorCompiler } from './validation.ts'

export type HttpLimits = { requestBytesMax: number; requestMsMax?: number }

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
  const log = createRequestLog(deps.log)
  const refuse = refusal(log)
  const answerError = errorAnswer(log, refuse)
  const arriveMsMax = deps.limits.requestMsMax ?? requestMsMax
  const app: FastifyInstance = fastify({
    bodyLimit: deps.limits.requestBytesMax,
    requestTimeout: arriveMsMax,
    http: {
      // Node's own is a minute, and of the two limits it takes the larger one for the whole request.
      headersTimeout: arriveMsMax,
      // Slow requests are looked for this often; Node's own half minute would double how long they may take.
      connectionsCheckingInterval: Math.ceil(arriveMsMax / 10),
      // Node refuses a request without a Host with an empty body; `prepare` says the same as a problem.
      requireHostHeader: false,
      // Of two Authorization headers Node would take the first and whoever stands in front of us perhaps the second.
      joinDuplicateHeaders: true,
      // A request without a body gets a stream that has ended, instead of one that has to be read to its end.
      optimizeEmptyRequests: true,
    },
    trustProxy: deps.trustedProxies === null ? false : [...deps.trustedProxies],
    genReqId: createRequestIds(),
    forceCloseConnections: 'idle',
    // While we stop, what still arrives on an open connection is served and the connection closed after it.
    return503OnClosing: false,
    clientErrorHandler: answerBrokenHttp,
    frameworkErrors: answerError,
    // As long as a whole header: an id that is too long is an id that does not exist, and answers like one.
    routerOptions: { maxParamLength: 16 * 1024 },
  })
  app.setValidatorCompiler(createValidatorCompiler())
  // What a route answers is decided by its own record function; see the conformance tests for the proof.
  app.setSerializerCompiler(() => JSON.stringify)
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, readJson)
  app.decorateRequest('admitted', null)
  app.decorateRequest('arrivedMs', 0)
  app.decorateRequest('isBodyLate', false)
  const methods = createMethodTable()
  app.addHook('onRoute', methods.add)
  const { inTurn } = watchConnections(app)
  app.addHook('onRequest', (request, reply, done) => {
    const fault = prepare(request, reply)
    inTurn(reply, () => {
      if (fault !== null) done(fault)
      // Not as Fastify's handler for it, which comes after the body has been read.
      else if (request.is404) refuse(reply, noRoute(methods.at(request.url)))
      else done()
    })
  })
  app.setErrorHandler(answerError)
  // A client may say that it is done before it has its answer: what it has asked for is done, so it has to hear of it.
  Object.assign(app.server, { httpAllowHalfOpen: true })
  app.server.on('checkExpectation', (_request, response) => answerExpectation(response))
  app.server.on('connect', (_request, socket) => answerBrokenHttp(noProxy, socket))
  // Not answered yet: whoever waits for it is to hear first whether the body will be read at all.
  app.server.on('checkContinue', (request, response) => app.server.emit('request', request, response))
  for (const route of deps.routes) addRoute(app, route, { ...deps, log })
  return app
}

/** For processes without the API: no routes of the table, the same way of answering. */
export function createProbeServer(log: Logger): FastifyInstance {
  const app: FastifyInstance = fastify({ forceCloseConnections: 'idle' })
  const requestLog = createRequestLog(log)
  const refuse = refusal(requestLog)
  const methods = createMethodTable()
  app.decorateRequest('arrivedMs', 0)
  app.addHook('onRoute', methods.add)
  app.addHook('onRequest', (request, reply, done) => done(prepare(request, reply) ?? undefined))
  app.setErrorHandler(errorAnswer(requestLog, refuse))
  app.setNotFoundHandler(async (request, reply) => refuse(reply, noRoute(methods.at(request.url))))
  return app
}

type RouteDeps = { authenticate: Authenticate; keyUses: KeyUses; log: RequestLog }

function addRoute(app: FastifyInstance, route: Route, deps: RouteDeps): void {
  const gate = gateOf(route, deps)
  const takesBody = route.body !== undefined
  const bodySchema = route.body ?? (isRead(route.method) ? undefined : noBody)
  app.route({
    method: route.method,
    url: route.path,
    schema: { ...(route.query && { querystring: route.query }), ...(bodySchema && { body: bodySchema }) },
    config: { passesOnNumbers: route.passesOnNumbers ?? false, takesBody },
    onRequest: gate,
    ...(!isRead(route.method) && {
      preParsing: givePayload,
      // A body may take half a minute to arrive, and whoever sends it may have lost every right meanwhile.
      preValidation(request, reply, done) {
        if (!takesBody) request.body ??= {}
        return request.isBodyLate ? gate(request, reply, done) : done()
      },
    }),
    ...(route.bodyBytesMax !== undefined && { bodyLimit: route.bodyBytesMax }),
    handler(request, reply) {
      const answer = run(route, request)
      if (!(answer instanceof Promise)) return send(reply, answer, gate, deps.log)
      answer.then((ready) => send(reply, ready, gate, deps.log)).catch((error) => reply.send(error))
    },
  })
}

function send(reply: FastifyReply, answer: Answer, gate: Gate, log: RequestLog): void {
  reply.code(answer.status)
  // A list may still be refused, for its cursor or because the database is away: its line waits for the first page.
  if ('list' in answer) {
    const mayGoOn = () =>
      new Promise<void>((resolve, reject) =>
        gate(reply.request, reply, (error) => (error === undefined ? resolve() : reject(error))),
      )
    const onBrokenOff = (error: unknown) => log.brokenOff(reply, error)
    sendList(reply, answer.list, reply.request.query as PageQuery, { mayGoOn, onBrokenOff })
      .then(() => log.answered(reply))
      .catch((error) => reply.send(error))
    return
  }
  log.answered(reply)
  if (answer.status === 204) return void reply.send()
  if (answer.status === 201) reply.header('location', answer.location)
  reply.type('application/json; charset=utf-8').send(JSON.stringify(answer.body))
}

type Refuse = (reply: FastifyReply, fault: Fault) => void

const refusal =
  (log: RequestLog): Refuse =>
  (reply, fault) => {
    skipBody(reply.request)
    sendProblem(reply, fault)
    log.answered(reply)
  }

const errorAnswer =
  (log: RequestLog, refuse: Refuse) =>
  (error: unknown, request: FastifyRequest, reply: FastifyReply): void => {
    const fault = faultOf(error)
    log.refused(request, fault, error)
    refuse(reply, fault)
  }

const isRead = (method: string): boolean => method === 'GET' || method === 'HEAD'

function prepare(request: FastifyRequest, reply: FastifyReply): Fault | null {
  request.arrivedMs = performance.now()
  // Secrets pass through here once, and answers change with every revocation: nothing may be kept on the way.
  reply.header('cache-control', 'no-store')
  const { host, upgrade } = request.headers
  // There is nothing else to speak here, and Node loses what came in one packet with such a request.
  if (upgrade !== undefined) reply.header('connection', 'close')
  if (isRead(request.method)) skipBody(request)
  // Only HTTP/1.0 may do without one.
  const hostIsGood = host === undefined ? request.raw.httpVersion === '1.0' : isHost(host)
  return hostIsGood ? null : hostFault()
}

/** A stream that has ended already says so to nobody, and whoever parses a body waits for its end. */
function givePayload(
  request: FastifyRequest,
  reply: FastifyReply,
  payload: Readable,
  done: (error: null, payload: Readable) => void,
): void {
  const { complete, readableEnded, httpVersion } = request.raw
  request.isBodyLate = !complete && !readableEnded
  const { expect, 'content-length': length = 0, 'transfer-encoding': coding } = request.headers
  const { config, bodyLimit } = request.routeOptions
  // `curl -X DELETE -d ''` sends nothing, and calls it a form.
  if (Number(length) === 0 && coding === undefined && !config.takesBody) delete request.headers['content-type']
  // HTTP/1.0 knows no such answer.
  if (expect !== undefined && Number(length) <= bodyLimit && httpVersion !== '1.0') reply.raw.writeContinue()
  done(null, readableEnded ? Readable.from([]) : payload)
}

const noRoute = (allowed: readonly string[]): Fault =>
  allowed.length === 0
    ? notFound('no route has this path')
    : new Fault('request.method_not_allowed', {
        public: `This path takes ${allowed.join(', ')}.`,
        headers: { allow: allowed.join(', ') },
      })
