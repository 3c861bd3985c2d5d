import type { Signer } from '../../domain/signature.ts'
import type { DueDelivery } from '../../store/delivery/due.ts'
import type { FlatHeaders } from './receiver-connections.ts'

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
