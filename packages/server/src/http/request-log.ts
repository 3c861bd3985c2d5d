import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import { clientAddress } from './client-address.ts'

/** One line a request; reads that went well only at debug. The path is the route's pattern: a path may hold a secret. */
export function createRequestLog(log: Logger) {
  return (request: FastifyRequest, reply: FastifyReply, done: () => void): void => {
    const quiet = reply.statusCode < 400 && (request.method === 'GET' || request.method === 'HEAD')
    const level = reply.statusCode >= 500 ? 'error' : quiet ? 'debug' : 'info'
    if (log.isLevelEnabled(level)) {
      const line = {
        requestId: request.id,
        method: request.method,
        route: request.routeOptions.url ?? null,
        status: reply.statusCode,
        durationMs: Math.round(reply.elapsedTime * 10) / 10,
        address: clientAddress(request),
        actor: request.admitted?.actor.kind,
        userId: request.admitted && 'access' in request.admitted ? request.admitted.access.userId : undefined,
      }
      log[level](line, 'request.answered')
    }
    done()
  }
}
