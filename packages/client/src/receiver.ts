import { type VerifyOptions, verifyWebhook } from './verify-webhook.ts'
import { WebhookVerificationError } from './webhook-error.ts'
import type { EventOf } from './webhook-event.ts'
import type { HeadersLike } from './webhook-headers.ts'

/** Options of all adapters. */
export type ReceiverOptions = Omit<VerifyOptions, 'body' | 'headers' | 'now'> & {
  /** A larger body is answered 413; 2 MiB by default. */
  bodyBytesMax?: number | undefined
  /** Called with the reason when a delivery is refused, for your log. */
  onRejected?: ((error: WebhookVerificationError) => void) | undefined
}

export const bodyBytesMaxOf = ({ bodyBytesMax = 2 * 1_024 * 1_024 }: ReceiverOptions): number => bodyBytesMax

/** What to answer, and the event if there is one to handle. */
export type Received = { event: EventOf<string, object> } | { status: number; reason: string }

/** A refusal names its reason: it is shown in the delivery history of the webhook. An error of the caller's setup is a 500. */
export async function receive(
  options: ReceiverOptions,
  headers: HeadersLike,
  body: VerifyOptions['body'],
): Promise<Received> {
  const { bodyBytesMax: _, onRejected, ...verify } = options
  try {
    return { event: await verifyWebhook({ ...verify, headers, body }) }
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error
    onRejected?.(error)
    return { status: ourFaults.includes(error.reason) ? 500 : 401, reason: error.reason }
  }
}

const ourFaults: string[] = ['secret_missing', 'secret_malformed', 'body_parsed']
export const tooLarge = { status: 413, reason: 'body_too_large' }
export const wrongMethod = { status: 405, reason: 'method_not_allowed' }

/** The whole body, or null if it is too large. */
export async function collect(chunks: AsyncIterable<Uint8Array>, bytesMax: number): Promise<Uint8Array | null> {
  const parts: Uint8Array[] = []
  let size = 0
  for await (const part of chunks) {
    size += part.length
    if (size > bytesMax) return null
    parts.push(part)
  }
  const body = new Uint8Array(size)
  let at = 0
  for (const part of parts) {
    body.set(part, at)
    at += part.length
  }
  return body
}

/** The same for a `Request`. */
export const collectBody = async ({ body }: Request, bytesMax: number): Promise<Uint8Array | null> =>
  body === null ? new Uint8Array() : collect(read(body), bytesMax)

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
