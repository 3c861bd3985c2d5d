import type { SendErrorCode } from '../../domain/send-errors.ts'

export type { SendErrorCode }

export class SendError extends Error {
  readonly code: SendErrorCode
  constructor(code: SendErrorCode, detail: string) {
    super(detail)
    this.code = code
  }
}

/** How far an attempt had come when it failed. */
export type Stage = 'dns' | 'connect' | 'tls' | 'exchange'

/** What undici cannot make sense of in an answer: an upgrade that nobody asked for, a status below 100. */
const isNonsense = (name: string, message = ''): boolean =>
  name === 'ERR_ASSERTION' || (name === 'UND_ERR_SOCKET' && /^bad (response|upgrade)$/.test(message))

const certificateProblem = /CERT|SELF_SIGNED|UNABLE_TO|HOSTNAME_MISMATCH|INVALID_CA|INVALID_PURPOSE|CRL/
const byCode: Record<string, SendErrorCode> = {
  ECONNREFUSED: 'connect_refused',
  EHOSTUNREACH: 'connect_unreachable',
  ENETUNREACH: 'connect_unreachable',
  EADDRNOTAVAIL: 'connect_unreachable',
  EMFILE: 'sender_exhausted',
  ENFILE: 'sender_exhausted',
  ENOBUFS: 'sender_exhausted',
  UND_ERR_HEADERS_OVERFLOW: 'response_headers_too_large',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'connection_closed',
  HPE_INVALID_EOF_STATE: 'connection_closed',
  UND_ERR_SOCKET: 'connection_closed',
  UND_ERR_CLOSED: 'connection_closed',
  UND_ERR_DESTROYED: 'connection_closed',
  UND_ERR_INFO: 'connection_closed',
}

/** Names what went wrong below us, by the error's own code and the stage it came in. */
export function sendErrorOf(error: unknown, stage: Stage): SendError {
  if (error instanceof SendError) return error
  const { code, name: kind, message } = error as { code?: string; name?: string; message?: string }
  const name = String(code ?? kind ?? '')
  // Node adds advice for whoever runs it, and the record is for whoever receives.
  const said = message?.replace(/; if the root CA is installed locally.*$/s, '')
  // OpenSSL's own lines name its source file, and end like lines.
  const told = said?.replace(/^[0-9A-F]+:error:[0-9A-F]+:([^:]*):[^:]*:([^:]*):.*$/s, '$1: $2').trim()
  const detail = [name, told].filter(Boolean).join(': ').slice(0, 500) || 'no reason given'
  const known = byCode[name]
  if (known === 'sender_exhausted') return new SendError(known, detail)
  if (stage === 'dns') return new SendError('dns_failed', detail)
  if (stage === 'tls') {
    return new SendError(certificateProblem.test(name) ? 'tls_certificate_invalid' : 'tls_failed', detail)
  }
  if (isNonsense(name, message)) return new SendError('response_malformed', 'The response is not HTTP/1.1.')
  if (known !== undefined) return new SendError(known, detail)
  if (stage === 'connect') return new SendError(name === 'ETIMEDOUT' ? 'connect_timeout' : 'connect_failed', detail)
  if (name.startsWith('HPE_') || name.startsWith('UND_ERR_') || kind === 'HTTPParserError')
    return new SendError('response_malformed', detail)
  return new SendError('connection_reset', detail)
}
