import { bodyBytesMaxOf, type ReceiverOptions, receive, tooLarge } from './receiver.ts'
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
    // Hono keeps the body, so that another middleware may have read it before.
    const body = await context.req.arrayBuffer()
    const isTooLarge = body.byteLength > bodyBytesMaxOf(options)
    const received = isTooLarge ? tooLarge : await receive(options, context.req.raw.headers, body)
    if (!('event' in received)) return Response.json({ reason: received.reason }, { status: received.status })
    await handle(received.event as Event, context)
    return new Response(null, { status: 204 })
  }
