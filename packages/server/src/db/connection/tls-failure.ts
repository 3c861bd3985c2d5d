/** What Node, by way of OpenSSL, calls a certificate that it does not accept, and a handshake that came to nothing. */
const codes = /CERT|SELF_SIGNED|UNABLE_TO|HOSTNAME_MISMATCH|INVALID_CA|INVALID_PURPOSE|CRL|^ERR_SSL_|^EPROTO$/

/** True when TLS with PostgreSQL failed. A running process tries again: certificates are renewed. */
export const isTlsFailure = (error: unknown): error is NodeJS.ErrnoException =>
  error instanceof Error && 'code' in error && codes.test(String(error.code))

/** One line for whoever starts a process. */
export function tlsFailureText({ code = '', message }: NodeJS.ErrnoException): string {
  // Node adds advice for whoever runs it, which has no meaning here; OpenSSL's own lines name its source file.
  const said = message
    .replace(/; if the root CA is installed locally.*$/s, '')
    .replace(/^[0-9A-F]+:error:[0-9A-F]+:([^:]*):[^:]*:([^:]*):.*$/s, '$1: $2')
  return `TLS with PostgreSQL failed: ${said.trim()} (${code}).${cure(code)}`
}

function cure(code: string): string {
  if (/ALTNAME|HOSTNAME/.test(code)) return ' The host has to be named as the certificate names it.'
  if (!/SELF_SIGNED|UNABLE_TO/.test(code)) return ''
  return ' sslrootcert=FILE in the URL names the authorities that are trusted.'
}
