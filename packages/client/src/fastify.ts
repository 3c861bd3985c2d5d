import { bodyBytesMaxOf, type ReceiverOptions, receive } from './receiver.ts'
import type { EventOf, WebhookEvent } from './webhook-event.ts'

export type { ReceiverOptions } from './receiver.ts'

/** The parts of Fastify that are used. */
type FastifyRequest = { headers: Record<string, string | string[] | undefined>; body: unknown }
type FastifyReply = { code(status: number): FastifyReply; send(body?: unknown): unknown }
type FastifyInstance = {
  removeAllContentTypeParsers(): unknown
  // biome-ignore lint/suspicious/noExplicitAny: Fastify has three kinds of parsers, and overloads cannot be matched without it.
  addContentTypeParser(type: string, options: { parseAs: 'buffer'; bodyLimit: number }, parse: any): unknown
  post(path: string, handler: (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>): unknown
}

export type WebhookPluginOptions<Event extends EventOf<string, object> = WebhookEvent> = ReceiverOptions & {
  path: string
  handle(event: Event, request: FastifyRequest): unknown
}

const parseNothing = (_: unknown, body: Uint8Array, done: (error: null, body: Uint8Array) => void) => done(null, body)

/** `app.register(webhookPlugin, { path: '/hooks', secret, handle })`. Only this route gets its body unparsed. */
export async function webhookPlugin(app: FastifyInstance, options: WebhookPluginOptions): Promise<void> {
  const { path, handle, ...receiver } = options
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit: bodyBytesMaxOf(receiver) }, parseNothing)
  app.post(path, async (request, reply) => {
    const received = await receive(receiver, request.headers, (request.body ?? '') as Uint8Array)
    if (!('event' in received)) return reply.code(received.status).send({ reason: received.reason })
    await handle(received.event as WebhookEvent, request)
    return reply.code(204).send()
  })
}
