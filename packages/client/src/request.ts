import {
  bodyBytesMaxOf,
  collect,
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
  const body = request.body === null ? new Uint8Array() : await collect(read(request.body), bodyBytesMaxOf(options))
  return body === null ? tooLarge : receive(options, request.headers, body)
}

/** Not every runtime can iterate over a stream. */
async function* read(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      yield value
    }
  } finally {
    await reader.cancel()
  }
}
