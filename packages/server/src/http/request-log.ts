import { randomBytes } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { Fault } from '../kernel/faults.ts'
import type { Broken } from './broken-http.ts'
import { clientAddress } from './client-address.ts'
import { faultOf } from './fault-of.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** When it came, by the process's own clock. */
    arrivedMs: number
  }
}

export type RequestLog = ReturnType<typeof createRequestLog>

/** What is said about requests. Fastify's own logger would make a child, two listeners and two readings of the clock for each. */
export function createRequestLog(log: Logger, count: (status: number) => void = () => {}) {
  return {
    /** One line an answer; reads that went well only at debug. The path is the route's pattern: a path may hold a secret. */
    answered(reply: FastifyReply): void {
      const { request, statusCode: status } = reply
      count(status)
      const quiet = status < 400 && (request.method === 'GET' || request.method === 'HEAD')
      const level = status >= 500 ? 'error' : quiet ? 'debug' : 'info'
      if (!log.isLevelEnabled(level)) return
      log[level](lineOf(reply), 'request.answered')
    },

    /** Its status had left already: the caller sees an answer without an end, and only this line says why. */
    brokenOff(reply: FastifyReply, error: unknown): void {
      const { code, status } = faultOf(error)
      if (status < 500) log.info({ ...lineOf(reply), code }, 'request.broken_off')
      else log.error({ ...lineOf(reply), err: error, code }, 'request.failed')
    },

    /** Refused before it was a request. */
    broken({ code, status, address }: Broken): void {
      log.info({ code, status, address }, 'request.broken')
    },

    /** Why, for the operator: the caller is told no more than they need. */
    refused(request: FastifyRequest, fault: Fault, error: unknown): void {
      const { id: requestId } = request
      if (fault.status >= 500) log.error({ requestId, err: error, code: fault.code }, 'request.failed')
      else if (fault.internal) log.debug({ requestId, code: fault.code, why: fault.internal }, 'request.refused')
    },
  }
}

function lineOf({ request, statusCode: status }: FastifyReply) {
  // A request that the router refuses is none of ours yet: it has no `admitted`, not even null.
  const admitted = request.admitted ?? null
  return {
    requestId: request.id,
    method: request.method,
    route: request.routeOptions.url ?? null,
    status,
    durationMs: Math.round((performance.now() - (request.arrivedMs || performance.now())) * 10) / 10,
    address: clientAddress(request),
    actor: admitted?.actor.kind,
    userId: admitted !== null && 'access' in admitted ? admitted.access.userId : undefined,
  }
}

/** Unique across processes by the random part, and cheap: every request gets one, few are ever looked at. */
export function createRequestIds(): () => string {
  const process = randomBytes(6).toString('base64url')
  let count = 0
  return () => `req_${process}_${(count++).toString(36)}`
}
