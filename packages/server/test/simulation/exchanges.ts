import type { Exchange } from '../../src/webhooks/sender/port.ts'

export const unknownOutcome: Exchange = {
  status: 'interrupted',
  requestHeaders: null,
  durationUs: null,
  dnsUs: null,
  connectUs: null,
  tlsUs: null,
  firstByteUs: null,
  address: null,
  response: null,
  error: { code: 'interrupted', detail: '' },
  gone: false,
  retryAfterMs: null,
}
