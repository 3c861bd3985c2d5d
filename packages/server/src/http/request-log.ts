import { randomBytes } from 'node:crypto'
import type { FastifyReply } from 'fastify'
import type { Logger } from 'pino'
import { clientAddress } from './client-address.ts'

/** One line an answer; reads that went well only at debug. The path is the route's pattern: a path may hold a secret. */
export function logAnswer(reply: FastifyReply): void {
  const { request, statusCode: status } = reply
  const log = request.log as Logger
  const quiet = status < 400 && (request.method === 'GET' || request.method === 'HEAD')
  const level = status >= 500 ? 'error' : quiet ? 'debug' : 'info'
  if (!log.isLevelEnabled(level)) return
  // A request that the router refuses is none of ours yet: it has no `admitted`, not even null.
  const admitted = request.admitted ?? null
  const line = {
    requestId: request.id,
    method: request.method,
    route: request.routeOptions.url ?? null,
    status,
    durationMs: Math.round(reply.elapsedTime * 10) / 10,
    address: clientAddress(request),
    actor: admitted?.actor.kind,
    userId: admitted !== null && 'access' in admitted ? admitted.access.userId : undefined,
  }
  log[level](line, 'request.answered')
}

/** Unique across processes by the random part, and cheap: every request gets one, few are ever looked at. */
export function createRequestIds(): () => string {
  const process = randomBytes(6).toString('base64url')
  let count = 0
  return () => `req_${process}_${(count++).toString(36)}`
}
