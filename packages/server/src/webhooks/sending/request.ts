import type { Signer } from '../../domain/signature.ts'
import type { DueDelivery } from '../../store/delivery/due.ts'

/** Name, value, name, value. */
export type FlatHeaders = string[]

export type RequestHeaders = (signer: Signer, delivery: Sent, startedAtMs: number) => FlatHeaders
type Sent = Pick<DueDelivery, 'eventId' | 'eventType' | 'body'>

/**
 * Everything that a delivery carries besides its body. The same delivery started at the same time has the same headers: after
 * a crash, the record of an attempt that nobody settled can still show what was sent, unless these options have changed.
 */
export function createRequestHeaders(options: { serviceName: string; standardWebhooks: boolean }): RequestHeaders {
  const eventHeader = `X-${options.serviceName}-Event`
  const signatureHeader = `X-${options.serviceName}-Signature`
  return (signer, { eventId, eventType, body }, startedAtMs) => {
    const headers = [
      'Content-Type',
      'application/json',
      'User-Agent',
      'Keyhook/1',
      'Accept-Encoding',
      'identity',
      eventHeader,
      eventType,
      signatureHeader,
      signer.body(body),
    ]
    if (options.standardWebhooks) {
      const seconds = Math.floor(startedAtMs / 1_000)
      headers.push('webhook-id', eventId, 'webhook-timestamp', String(seconds))
      headers.push('webhook-signature', signer.standard(eventId, seconds, body))
    }
    return headers
  }
}

/** Everything that is sent, in one piece. `headers` hold what we have put together ourselves, and no end of a line. */
export function createRequest(url: URL): (headers: FlatHeaders, body: Buffer) => Buffer {
  // As it is recorded: a question mark with nothing behind it is no part of the search, and is called all the same.
  const path = url.href.slice(url.origin.length)
  const start = `POST ${path} HTTP/1.1\r\nhost: ${url.host}\r\nconnection: keep-alive\r\n`
  return (headers, body) => {
    let head = start
    for (let i = 0; i < headers.length; i += 2) head += `${headers[i]}: ${headers[i + 1]}\r\n`
    head += `content-length: ${body.length}\r\n\r\n`
    const request = Buffer.allocUnsafe(head.length + body.length)
    request.write(head, 'latin1')
    request.set(body, head.length)
    return request
  }
}
