/** Every `error.code` of an attempt. The codes are part of the interface; the detail is for people. */
export const sendErrorCodes = [
  'dns_failed',
  'dns_timeout',
  'address_forbidden',
  'connect_refused',
  'connect_unreachable',
  'connect_timeout',
  'connect_failed',
  'tls_failed',
  'tls_timeout',
  'tls_certificate_invalid',
  'timeout',
  'connection_closed',
  'connection_reset',
  'response_malformed',
  'response_headers_too_large',
  'response_too_large',
  'redirect_not_followed',
  'status_not_successful',
  'sender_exhausted',
  'interrupted',
] as const

export type SendErrorCode = (typeof sendErrorCodes)[number]

export class SendError extends Error {
  readonly code: SendErrorCode
  constructor(code: SendErrorCode, detail: string) {
    super(detail)
    this.code = code
  }
}

export type Stage = 'dns' | 'connect' | 'tls' | 'exchange'

const certificateProblem = /CERT|SELF_SIGNED|UNABLE_TO|HOSTNAME_MISMATCH|INVALID_CA|INVALID_PURPOSE|CRL/
const byCode: Record<string, SendErrorCode> = {
  ECONNREFUSED: 'connect_refused',
  EHOSTUNREACH: 'connect_unreachable',
  ENETUNREACH: 'connect_unreachable',
  EADDRNOTAVAIL: 'connect_unreachable',
  EMFILE: 'sender_exhausted',
  ENFILE: 'sender_exhausted',
  ENOBUFS: 'sender_exhausted',
}

/** Classifies an error of DNS, TCP or TLS by its own code and the stage in which it happened. */
export function classifyError(error: unknown, stage: Stage): SendError {
  if (error instanceof SendError) return error
  const { code, name: kind, message } = error as { code?: string; name?: string; message?: string }
  const name = String(code ?? kind ?? '')
  const detail = [name, readableMessage(message)].filter(Boolean).join(': ').slice(0, 500) || 'no reason given'
  const known = byCode[name]
  if (known === 'sender_exhausted') return new SendError(known, detail)
  if (stage === 'dns') return new SendError('dns_failed', detail)
  if (stage === 'tls') {
    return new SendError(certificateProblem.test(name) ? 'tls_certificate_invalid' : 'tls_failed', detail)
  }
  if (known !== undefined) return new SendError(known, detail)
  if (stage === 'connect') return new SendError(name === 'ETIMEDOUT' ? 'connect_timeout' : 'connect_failed', detail)
  return new SendError('connection_reset', detail)
}

/** Without Node's advice for developers, and without the source line in OpenSSL's messages. */
const readableMessage = (message: string | undefined): string | undefined =>
  message
    ?.replace(/; if the root CA is installed locally.*$/s, '')
    .replace(/^[0-9A-F]+:error:[0-9A-F]+:([^:]*):[^:]*:([^:]*):.*$/s, '$1: $2')
    .trim()
