import {
  bodyBytesMaxOf,
  collect,
  type Received,
  type ReceiverOptions,
  receive,
  tooLarge,
  wrongMethod,
} from './receiver.ts'
import type { VerifyOptions } from './verify-webhook.ts'
import type { EventOf, WebhookEvent } from './webhook-event.ts'

export type { ReceiverOptions } from './receiver.ts'

/** The parts of Express's request and response that are used; they are those of Node. */
type NodeRequest = AsyncIterable<Uint8Array> & {
  method?: string | undefined
  headers: Record<string, string | string[] | undefined>
  readableEnded: boolean
  /** What a body parser has left. */
  body?: unknown
}
type NodeResponse = {
  statusCode: number
  setHeader(name: string, value: string): unknown
  end(text?: string): unknown
}

/**
 * `app.post('/hooks', webhookHandler({ secret }, async (event) => { … }))`, before `app.use(express.json())`: it reads the raw
 * body. After `express.raw()` it works too.
 */
export const webhookHandler =
  <Event extends EventOf<string, object> = WebhookEvent, R extends NodeRequest = NodeRequest>(
    options: ReceiverOptions,
    handle: (event: Event, request: R) => unknown,
  ) =>
  async (request: R, response: NodeResponse, next: (error: unknown) => void): Promise<void> => {
    try {
      const received = await receiveFrom(options, request)
      if ('event' in received) await handle(received.event as Event, request)
      answer(response, received)
    } catch (error) {
      // Express 4 does not catch rejections.
      next(error)
    }
  }

async function receiveFrom(options: ReceiverOptions, request: NodeRequest): Promise<Received> {
  if (request.method !== 'POST') return wrongMethod
  const max = bodyBytesMaxOf(options)
  // To refuse it before reading leaves the connection as it is; to stop in the middle would close it.
  if (Number(request.headers['content-length'] ?? 0) > max) return tooLarge
  const isRead = request.readableEnded || request.body instanceof Uint8Array
  const body = isRead ? (request.body as VerifyOptions['body']) : await collect(request, max)
  return body === null ? tooLarge : receive(options, request.headers, body)
}

function answer(response: NodeResponse, received: Received): void {
  response.statusCode = 'event' in received ? 204 : received.status
  if ('event' in received) return void response.end()
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ reason: received.reason }))
}
