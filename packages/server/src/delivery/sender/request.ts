import { createHmac } from 'node:crypto'
import type { RawHeaders } from './http1/client.ts'
import type { SentContent } from './port.ts'

export type RequestHeaders = (signer: Signer, content: SentContent) => RawHeaders

/**
 * All headers of an attempt. They depend only on the arguments and these options, so that an attempt that was in flight in a
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

/*
 * Two signatures of one body. The specified one covers the body alone, and its key is the text of the secret. The one of Standard
 * Webhooks also covers id and time against replays, and its key is the decoded secret.
 */
export type Signer = {
  /** `sha256=<hex>` of exactly these bytes. */
  body(body: Uint8Array): string
  /** `v1,<base64>` of `<id>.<seconds>.<body>`; two of them, separated by a space, while two secrets are valid. */
  standard(id: string, seconds: number, body: Uint8Array): string
}

export function createSigner(secret: string): Signer {
  const decoded = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  return {
    body: (body) => `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
    standard: (id, seconds, body) =>
      `v1,${createHmac('sha256', decoded).update(`${id}.${seconds}.`).update(body).digest('base64')}`,
  }
}

/** While a secret is being replaced: Standard Webhooks has room for both signatures, the specified header for one. */
export const createOverlappingSigner = (current: Signer, old: Signer, { switched }: { switched: boolean }): Signer => ({
  body: (switched ? current : old).body,
  standard: (id, seconds, body) => `${current.standard(id, seconds, body)} ${old.standard(id, seconds, body)}`,
})
