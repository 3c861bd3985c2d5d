import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'

/** Where a request came from. A trusted proxy may pass on an X-Forwarded-For that somebody made up: then its own address. */
export const clientAddress = (request: FastifyRequest): string =>
  isIP(request.ip) === 0 ? (request.socket.remoteAddress ?? 'unknown') : request.ip
