import { bodyBytesMaxOf, collectBody, type Received, type ReceiverOptions, receive, tooLarge } from './receiver.ts'
import type { EventOf, WebhookEvent } from './webhook-event.ts'

export type { ReceiverOptions } from './receiver.ts'

/** The part of Hono's `Context` that is used. */
type HonoContext = { req: { raw: Request; arrayBuffer(): Promise<ArrayBuffer> } }

/** `app.post('/hooks', webhookHandler({ secret }, async (event) => { … }))` */
export const webhookHandler =
  <Event extends EventOf<string, object> = WebhookEvent, C extends HonoContext = HonoContext>(
    options: ReceiverOptions,
    handle: (event: Event, context: C) => unknown,
  ) =>
  async (context: C): Promise<Response> => {
    const received = await receiveFrom(options, context)
    if (!('event' in received)) return Response.json({ reason: received.reason }, { status: received.status })
    await handle(received.event as Event, context)
    return new Response(null, { status: 204 })
  }

async function receiveFrom(options: ReceiverOptions, { req }: HonoContext): Promise<Received> {
  const max = bodyBytesMaxOf(options)
  // If another middleware has read the body, Hono has kept it.
  const body = req.raw.bodyUsed ? await req.arrayBuffer() : await collectBody(req.raw, max)
  return body === null || body.byteLength > max ? tooLarge : receive(options, req.raw.headers, body)
}
