import { timingSafeEqual } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { notFound } from '../kernel/faults.ts'
import { bearerToken } from './authenticate.ts'
import { invalidToken } from './problems.ts'

/**
 * `/metrics`, for callers with the token. Without a token only callers on this machine are answered, and not through a proxy,
 * behind which every caller looks local: how busy an installation is, is not public.
 */
export function addMetricsRoute(
  app: FastifyInstance,
  deps: { metrics: () => Promise<string>; contentType: string; token: string | null },
): void {
  app.get('/metrics', async (request, reply) => {
    if (deps.token !== null) checkToken(deps.token, request)
    else if (!isLocal(request))
      throw notFound('metrics are for callers on this machine unless KEYHOOK_METRICS_TOKEN is set')
    return reply.type(deps.contentType).send(await deps.metrics())
  })
}

function checkToken(token: string, request: FastifyRequest): void {
  const given = Buffer.from(bearerToken(request.headers.authorization))
  const wanted = Buffer.from(token)
  if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) throw invalidToken('not the metrics token')
}

const isLocal = (request: FastifyRequest): boolean =>
  ['x-forwarded-for', 'forwarded', 'via'].every((name) => request.headers[name] === undefined) &&
  /^(127\.|::1$|::ffff:127\.)/.test(request.socket.remoteAddress ?? '')
