/** Node's and OpenSSL's codes for a certificate that is not accepted, and for a failed handshake. */
const codes = /CERT|SELF_SIGNED|UNABLE_TO|HOSTNAME_MISMATCH|INVALID_CA|INVALID_PURPOSE|CRL|^ERR_SSL_|^EPROTO$/

/** True when TLS with PostgreSQL failed. A running process tries again: certificates are renewed. */
export const isTlsFailure = (error: unknown): error is NodeJS.ErrnoException =>
  error instanceof Error && 'code' in error && codes.test(String(error.code))

/** One line for the operator. */
export function tlsFailureText({ code = '', message }: NodeJS.ErrnoException): string {
  // Without Node's advice, which does not apply here, and without OpenSSL's source file.
  const text = message
    .replace(/; if the root CA is installed locally.*$/s, '')
    .replace(/^[0-9A-F]+:error:[0-9A-F]+:([^:]*):[^:]*:([^:]*):.*$/s, '$1: $2')
  return `TLS with PostgreSQL failed: ${text.trim()} (${code}).${remedy(code)}`
}

function remedy(code: string): string {
  if (/ALTNAME|HOSTNAME/.test(code)) return ' The host in the URL has to be a name in the certificate.'
  if (!/SELF_SIGNED|UNABLE_TO/.test(code)) return ''
  return ' sslrootcert=FILE in the URL sets the trusted authorities.'
}
