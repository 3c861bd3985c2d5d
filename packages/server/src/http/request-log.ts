import { randomBytes } from 'node:crypto'
import { isIP } from 'node:net'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { Fault } from '../lib/faults.ts'
import type { MalformedRequest } from './connections.ts'
import { toFault } from './problems.ts'

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
export function createRequestLog(log: Logger, onAnswer: (answer: Answered) => void = () => {}) {
  return {
    /** One line per answer; successful reads only at debug. It has the route's pattern: a path may hold a secret. */
    answered(reply: FastifyReply, fault?: Fault): void {
      const { request, statusCode: status } = reply
      onAnswer({ method: request.method, route: request.routeOptions.url ?? null, status, seconds: secondsOf(request) })
      const isRead = request.method === 'GET' || request.method === 'HEAD' || request.routeOptions.config.isRead
      const quiet = status < 400 && isRead
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
export function createRequestIds(): () => string {
  const process = randomBytes(6).toString('base64url')
  let count = 0
  return () => `req_${process}_${(count++).toString(36)}`
}

/** The address of the client. A trusted proxy may pass on an invalid X-Forwarded-For: then the proxy's own address. */
export function clientAddress(request: FastifyRequest): string {
  const peer = request.socket.remoteAddress ?? 'unknown'
  return request.ip === peer || isIP(request.ip) === 0 ? peer : request.ip
}
