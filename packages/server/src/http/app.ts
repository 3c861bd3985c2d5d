import { randomBytes } from 'node:crypto'
import { isIP } from 'node:net'
import fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifyServerOptions,
} from 'fastify'
import type { Logger } from 'pino'
import { Fault, notFound } from '../lib/faults.ts'
import {
  createMalformedRequests,
  type MalformedRequest,
  proxyRequested,
  requestLineFault,
  requestMsMax,
  skipBody,
  trackConnections,
} from './connections.ts'
import { createValidatorCompiler, readJson } from './decode.ts'
import { nameMissing, sendProblem, toFault } from './problems.ts'

export type HttpLimits = { requestBytesMax: number; requestMsMax?: number }

/** A server without routes: how requests arrive, and how everything that is not served is answered. */
export function createApp(deps: {
  limits: HttpLimits
  trustedProxies: readonly string[] | null
  log: Logger
  /** Aborted when the process is about to stop: requests are still served, and every answer closes its connection. */
  draining?: AbortSignal | undefined
  /** Called with every answer. */
  onAnswer?: (answer: Answered) => void
}): { app: FastifyInstance; log: RequestLog } {
  const log = createRequestLog(deps.log, deps.onAnswer)
  const refuse = (reply: FastifyReply, fault: Fault): void => {
    skipBody(reply.request, reply.raw)
    sendProblem(reply, fault)
    log.answered(reply, fault)
  }
  const answerError = (error: unknown, request: FastifyRequest, reply: FastifyReply): void => {
    const fault = nameMissing(toFault(error), request.routeOptions.url, request.params)
    log.refused(request, fault, error)
    refuse(reply, fault)
  }
  const app = createFastify(deps, {
    frameworkErrors: answerError,
    clientErrorHandler: (error, socket) => malformed.answerError(error, socket),
  })
  app.setValidatorCompiler(createValidatorCompiler())
  // A route's own record function decides what it answers; the conformance tests check it against the document.
  app.setSerializerCompiler(() => JSON.stringify)
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, readJson)
  app.decorateRequest('caller', null)
  app.decorateRequest('arrivedMs', 0)
  app.decorateRequest('isBodyPending', false)
  app.setErrorHandler(answerError)

  const methods = createMethodTable()
  app.addHook('onRoute', methods.add)
  const connections = trackConnections(app, deps.draining)
  app.addHook('onRequest', (request, reply, done) => {
    const fault = prepare(request, reply)
    connections.inTurn(reply, () => {
      if (fault !== null) done(fault)
      // Here and not in Fastify's handler for it, which runs after the body has been read.
      else if (request.is404) refuse(reply, noRoute(methods.at(request.url)))
      else done()
    })
  })
  const malformed = createMalformedRequests({ connections, log })
  handleSpecialRequests(app, malformed)
  return { app, log }
}

function createFastify(
  deps: { limits: HttpLimits; trustedProxies: readonly string[] | null },
  errorHandlers: Pick<FastifyServerOptions, 'frameworkErrors' | 'clientErrorHandler'>,
): FastifyInstance {
  const arriveMsMax = deps.limits.requestMsMax ?? requestMsMax
  return fastify({
    bodyLimit: deps.limits.requestBytesMax,
    requestTimeout: arriveMsMax,
    http: {
      // Node's default is a minute, and it uses the larger of the two limits for the whole request.
      headersTimeout: arriveMsMax,
      // How often Node looks for slow requests; its default of 30 seconds would double the time limit.
      connectionsCheckingInterval: Math.ceil(arriveMsMax / 10),
      // Node answers a missing Host with an empty body; `prepare` answers with a problem.
      requireHostHeader: false,
      // Of two Authorization headers Node would use the first, and a proxy in front of us perhaps the second.
      joinDuplicateHeaders: true,
      // A request without a body gets a stream that has ended, so nothing has to read it.
      optimizeEmptyRequests: true,
    },
    trustProxy: deps.trustedProxies === null ? false : [...deps.trustedProxies],
    genReqId: createRequestIds(),
    forceCloseConnections: 'idle',
    // While stopping, a request on an open connection is still served, and the connection closed after it.
    return503OnClosing: false,
    // As long as a header may be: an id that is too long is answered like one that does not exist.
    routerOptions: { maxParamLength: 16 * 1024 },
    ...errorHandlers,
  })
}

/** What Node reports by another event than `request`. */
function handleSpecialRequests(
  app: FastifyInstance,
  { answerError, answerExpectation }: ReturnType<typeof createMalformedRequests>,
): void {
  app.server.on('connect', ({ socket }) => answerError(proxyRequested, socket))
  app.server.on('checkExpectation', answerExpectation)
  // 100 Continue is sent later, when it is known that the body will be read.
  app.server.on('checkContinue', (request, response) => {
    // Node also reports a longer expectation that contains "100-continue".
    if (/^100-continue$/i.test(request.headers.expect!)) app.server.emit('request', request, response)
    else answerExpectation(request, response)
  })
  // A client may close its sending side before it has its answer. Node has no documented option for this.
  Object.assign(app.server, { httpAllowHalfOpen: true })
}

export const isRead = (method: string): boolean => method === 'GET' || method === 'HEAD'

function prepare(request: FastifyRequest, reply: FastifyReply): Fault | null {
  request.arrivedMs = performance.now()
  // Answers carry secrets once, and change with every revocation: no cache may keep them.
  reply.header('cache-control', 'no-store')
  // We speak no other protocol, and Node drops what arrived in one packet with such a request.
  if (request.headers.upgrade !== undefined) reply.header('connection', 'close')
  if (isRead(request.method)) skipBody(request, reply.raw)
  return requestLineFault(request)
}

const noRoute = (allowed: readonly string[]): Fault =>
  allowed.length === 0
    ? notFound('no route has this path')
    : new Fault('request.method_not_allowed', {
        public: `This path takes ${allowed.join(', ')}.`,
        headers: { allow: allowed.join(', ') },
      })

/** Collects the methods of every registered path, for 405 and its Allow header. */
function createMethodTable() {
  const registered: { method: string; parts: string[] }[] = []
  const matches = (pattern: readonly string[], path: readonly string[]): boolean =>
    pattern.length === path.length &&
    pattern.every((part, i) => (part.startsWith(':') ? path[i] !== '' : part === path[i]))
  return {
    add({ method, url }: { method: string | string[]; url: string }): void {
      for (const one of [method].flat()) registered.push({ method: one, parts: url.split('/') })
    },
    /** Empty when no route has the path. */
    at(url: string): string[] {
      // A proxy may send the whole URL as the target (RFC 9112, 3.2.2).
      const path = url.replace(/^https?:\/\/[^/?]*/i, '').split('?', 1)[0]!
      const parts = path.split('/').map(decoded)
      return [...new Set(registered.filter((route) => matches(route.parts, parts)).map(({ method }) => method))]
    },
  }
}

/** The router decodes a path only for methods that some route has, so this one may be invalid. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

declare module 'fastify' {
  interface FastifyRequest {
    /** By `performance.now()`. */
    arrivedMs: number
  }
}

/** `route`: its pattern; null for a path that no route has. */
export type Answered = { method: string; route: string | null; status: number; seconds: number }

export type RequestLog = ReturnType<typeof createRequestLog>

/** Fastify's own logger would create a child logger, two listeners and two clock readings for each request. */
function createRequestLog(log: Logger, onAnswer: (answer: Answered) => void = () => {}) {
  return {
    /** One line per answer; successful reads only at debug. It has the route's pattern: a path may hold a secret. */
    answered(reply: FastifyReply, fault?: Fault): void {
      const { request, statusCode: status } = reply
      onAnswer({ method: request.method, route: request.routeOptions.url ?? null, status, seconds: secondsOf(request) })
      const quiet = status < 400 && (isRead(request.method) || request.routeOptions.config.isRead)
      const level = status >= 500 ? 'error' : quiet ? 'debug' : 'info'
      if (!log.isLevelEnabled(level)) return
      // Why a token was refused, or what failed: callers all get the same answer.
      const why = status === 401 || status >= 500 ? fault?.internal : undefined
      log[level]({ ...lineOf(reply), ...(why && { why }) }, 'request.answered')
    },

    /** The status was sent already: the caller gets an incomplete answer, and only this line says why. */
    aborted(reply: FastifyReply, error: unknown): void {
      const { code, status } = toFault(error)
      if (status < 500) log.info({ ...lineOf(reply), code }, 'request.aborted')
      else log.error({ ...lineOf(reply), err: error, code }, 'request.failed')
    },

    malformed({ code, status, address }: MalformedRequest): void {
      log.info({ code, status, address }, 'request.malformed')
    },

    /** The reason, which the answer does not contain. */
    refused(request: FastifyRequest, fault: Fault, error: unknown): void {
      const { id: requestId } = request
      if (fault.status >= 500) log.error({ requestId, err: error, code: fault.code }, 'request.failed')
      else if (fault.internal) log.debug({ requestId, code: fault.code, why: fault.internal }, 'request.refused')
    },
  }
}

/** Undefined for a request that the router refuses: it has no decorators. */
const secondsOf = ({ arrivedMs }: FastifyRequest): number => (arrivedMs ? (performance.now() - arrivedMs) / 1_000 : 0)

function lineOf({ request, statusCode: status }: FastifyReply) {
  // Undefined for a request that the router refuses: it has no decorators.
  const caller = request.caller ?? null
  return {
    requestId: request.id,
    method: request.method,
    route: request.routeOptions.url ?? null,
    status,
    durationMs: Math.round(secondsOf(request) * 10_000) / 10,
    address: clientAddress(request),
    actor: caller?.actor.kind,
    userId: caller !== null && 'access' in caller ? caller.access.userId : undefined,
  }
}

/** Unique across processes by the random part, and cheap, because every request gets one. */
function createRequestIds(): () => string {
  const process = randomBytes(6).toString('base64url')
  let count = 0
  return () => `req_${process}_${(count++).toString(36)}`
}

/** The address of the client. A trusted proxy may pass on an invalid X-Forwarded-For: then the proxy's own address. */
export function clientAddress(request: FastifyRequest): string {
  const peer = request.socket.remoteAddress ?? 'unknown'
  return request.ip === peer || isIP(request.ip) === 0 ? peer : request.ip
}
