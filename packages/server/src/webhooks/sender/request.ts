import type { Signer } from '../../domain/signature.ts'
import type { RawHeaders } from './http1/client.ts'
import type { SentContent } from './port.ts'

export type RequestHeaders = (signer: Signer, content: SentContent) => RawHeaders

/**
 * All headers of a delivery. They depend only on the arguments and these options, so that an attempt that was in flight in a
 * crash can still be recorded with what was sent.
 */
export function createRequestHeaders(options: { serviceName: string; standardWebhooks: boolean }): RequestHeaders {
  const eventHeader = `X-${options.serviceName}-Event`
  const signatureHeader = `X-${options.serviceName}-Signature`
  const sequenceHeader = `X-${options.serviceName}-Sequence`
  const previousHeader = `X-${options.serviceName}-Previous-Sequence`
  return (signer, { eventId, eventType, body, startedAtMs, sequence, previousSequence }) => {
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
    if (sequence !== null) headers.push(sequenceHeader, String(sequence))
    if (previousSequence !== null) headers.push(previousHeader, String(previousSequence))
    if (options.standardWebhooks) {
      const seconds = Math.floor(startedAtMs / 1_000)
      headers.push('webhook-id', eventId, 'webhook-timestamp', String(seconds))
      headers.push('webhook-signature', signer.standard(eventId, seconds, body))
    }
    return headers
  }
}
