import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import { Fault, notFound } from '../kernel/faults.ts'
import { readJson } from './body.ts'
import {
  createBrokenHttp,
  hostFault,
  isHost,
  isTarget,
  noProxy,
  requestMsMax,
  skipBody,
  targetFault,
} from './broken-http.ts'
import { watchConnections } from './connections.ts'
import { faultOf } from './fault-of.ts'
import { createMethodTable } from './methods.ts'
import { sendProblem } from './problems.ts'
import { createRequestIds, createRequestLog, type RequestLog } from './request-log.ts'
import { createValidatorCompiler } from './validation.ts'

export type HttpLimits = { requestBytesMax: number; requestMsMax?: number }

/** A server without routes: how requests arrive, and how everything that is not served is refused. */
export function createApp(deps: {
  limits: HttpLimits
  trustedProxies: readonly string[] | null
  log: Logger
  /** Is told the status of every answer of an operation, and of every refusal of what was a request. */
  onAnswer?: (status: number) => void
}): { app: FastifyInstance; log: RequestLog } {
  const log = createRequestLog(deps.log, deps.onAnswer)
  const refuse = refusal(log)
  const answerError = errorAnswer(log, refuse)
  const { answerBroken, answerExpectation } = createBrokenHttp({ log })
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
    clientErrorHandler: answerBroken,
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
  app.server.on('checkExpectation', answerExpectation)
  app.server.on('connect', (_request, socket) => answerBroken(noProxy, socket))
  // Not answered yet: whoever waits for it is to hear first whether the body will be read at all.
  app.server.on('checkContinue', (request, response) => {
    // To Node it is enough that it occurs in what is expected.
    if (/^100-continue$/i.test(request.headers.expect!)) app.server.emit('request', request, response)
    else answerExpectation(request, response)
  })
  return { app, log }
}

type Refuse = (reply: FastifyReply, fault: Fault) => void

const refusal =
  (log: RequestLog): Refuse =>
  (reply, fault) => {
    skipBody(reply.request, reply.raw)
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

export const isRead = (method: string): boolean => method === 'GET' || method === 'HEAD'

function prepare(request: FastifyRequest, reply: FastifyReply): Fault | null {
  request.arrivedMs = performance.now()
  // Secrets pass through here once, and answers change with every revocation: nothing may be kept on the way.
  reply.header('cache-control', 'no-store')
  const { host, upgrade } = request.headers
  // There is nothing else to speak here, and Node loses what came in one packet with such a request.
  if (upgrade !== undefined) reply.header('connection', 'close')
  if (isRead(request.method)) skipBody(request, reply.raw)
  // Only HTTP/1.0 may do without one.
  const hostIsGood = host === undefined ? request.raw.httpVersion === '1.0' : isHost(host)
  if (!hostIsGood) return hostFault()
  return isTarget(request.method, request.raw.url!) ? null : targetFault()
}

const noRoute = (allowed: readonly string[]): Fault =>
  allowed.length === 0
    ? notFound('no route has this path')
    : new Fault('request.method_not_allowed', {
        public: `This path takes ${allowed.join(', ')}.`,
        headers: { allow: allowed.join(', ') },
      })
