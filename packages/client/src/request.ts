import {
  bodyBytesMaxOf,
  collectBody,
  type Received,
  type ReceiverOptions,
  receive,
  tooLarge,
  wrongMethod,
} from './receiver.ts'
import type { EventOf, WebhookEvent } from './webhook-event.ts'

export type { ReceiverOptions } from './receiver.ts'

/**
 * A handler for servers that work with `Request` and `Response`: Deno, Bun, Cloudflare Workers and others. An error of `handle`
 * is passed on, so that the delivery fails and is repeated.
 */
export const webhookHandler =
  <Event extends EventOf<string, object> = WebhookEvent>(
    options: ReceiverOptions,
    handle: (event: Event, request: Request) => unknown,
  ) =>
  async (request: Request): Promise<Response> => {
    const received = await receiveRequest(options, request)
    if (!('event' in received)) return Response.json({ reason: received.reason }, { status: received.status })
    await handle(received.event as Event, request)
    return new Response(null, { status: 204 })
  }

async function receiveRequest(options: ReceiverOptions, request: Request): Promise<Received> {
  if (request.method !== 'POST') return wrongMethod
  const body = await collectBody(request, bodyBytesMaxOf(options))
  return body === null ? tooLarge : receive(options, request.headers, body)
}
