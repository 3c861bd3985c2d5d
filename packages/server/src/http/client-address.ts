import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'

/** Where a request came from. A trusted proxy may pass on an X-Forwarded-For that somebody made up: then its own address. */
export function clientAddress(request: FastifyRequest): string {
  const peer = request.socket.remoteAddress ?? 'unknown'
  return request.ip === peer || isIP(request.ip) === 0 ? peer : request.ip
}
