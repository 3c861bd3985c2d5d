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
