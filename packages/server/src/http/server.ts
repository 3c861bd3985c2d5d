import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { KeyUses } from '../store/key-uses.ts'
import { type Gate, gateOf, runnerOf } from './admit.ts'
import { createApp, type HttpLimits, isRead } from './app.ts'
import type { Authenticate } from './authenticate.ts'
import { type PageQuery, sendList } from './lists.ts'
import type { RequestLog } from './request-log.ts'
import { type Answer, noBody, type Route } from './route.ts'

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
  onAnswer?: (status: number) => void
}): FastifyInstance {
  const { app, log } = createApp(deps)
  for (const route of deps.routes) addRoute(app, route, { ...deps, log })
  return app
}

type RouteDeps = { authenticate: Authenticate; keyUses: KeyUses; log: RequestLog }

function addRoute(app: FastifyInstance, route: Route, deps: RouteDeps): void {
  const gate = gateOf(route, deps)
  const run = runnerOf(route)
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
      const answer = run(request)
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
