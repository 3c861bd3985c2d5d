import { KeyhookError } from '@keyhook/client'
import { OperationFailed } from './output.ts'

export type Explained = { text: string; code: number }

/** What happened, what to do about it, and the request id for the operator. Null for errors of other kinds. */
export function explainClientError(error: unknown): Explained | null {
  if (error instanceof OperationFailed) return { text: error.message, code: 1 }
  if (!(error instanceof KeyhookError)) return null
  const lines =
    error.errors.length === 0 ? [messageOf(error)] : ['The server refused the request:', ...error.errors.map(fieldText)]
  const advice = adviceOf(error)
  if (advice !== null) lines.push(advice)
  if (error.requestId !== null) lines.push(`Request id: ${error.requestId}`)
  return { text: lines.join('\n'), code: exitCodeOf(error) }
}

/** OpenSSL's own text is a line of addresses and file names. */
const messageOf = (error: KeyhookError): string =>
  causeCode(error).startsWith('ERR_SSL')
    ? `The server cannot be reached: TLS failed (${causeCode(error)})`
    : error.message

/** Node's fetch hides the reason in the cause of the cause. */
const causeCode = ({ cause }: KeyhookError): string =>
  (cause as { cause?: { code?: string } } | undefined)?.cause?.code ?? ''

/** The server's texts continue the name of the field: "must be from 0.1 to 1,000". */
function fieldText(field: KeyhookError['errors'][number]): string {
  const name = ('pointer' in field ? field.pointer.replace(/^\//, '') : field.parameter) || 'The body'
  return /^[a-z]/.test(field.detail) ? `  ${name} ${field.detail.replace(/\.?$/, '.')}` : `  ${name}: ${field.detail}`
}

/** 3 and 4 let a script tell "log in again" and "there is no such record" from everything else. */
function exitCodeOf({ status }: KeyhookError): number {
  if (status === 401 || status === 403) return 3
  if (status === 404 || status === 410) return 4
  return status !== null && status >= 400 && status < 500 ? 2 : 1
}

function adviceOf(error: KeyhookError): string | null {
  const { code, status } = error
  if (code === 'client.network') return networkAdvice(causeCode(error))
  if (code === 'client.timeout') return 'Try again, or check that the server is healthy: GET /readyz'
  if (code === 'client.unexpected_response')
    return 'Check the address: it is that of Keyhook itself, such as https://keyhook.example.com, without /api/v1.'
  if (code === 'auth.login_required') return 'Log in yourself: npx keyhook login'
  if (status === 401) return 'Log in with a token that is valid: npx keyhook login'
  if (code === 'auth.key_restricted' || code === 'auth.address_refused')
    return 'Use another API key, or log in: npx keyhook login. "npx keyhook keys show" shows what a key is limited to.'
  if (status === 403) return 'Ask an owner of the organization for a role that allows this command.'
  if (status === 404) return 'Check the id, and --org: only records of that organization are found.'
  if (code === 'request.rate_limited') return 'Send fewer requests in a minute, or ask an operator for a higher limit.'
  if (code === 'limit.reached') return 'Delete records that you no longer need, or ask an operator for a higher limit.'
  if (status !== null && status >= 500) return 'Try again. If the error continues, give the operator the request id.'
  return null
}

function networkAdvice(code: string): string {
  if (code === 'ECONNREFUSED')
    return 'No program listens on that port. Check that the server is running, and that the port is right.'
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return 'The host name is not known. Check the address.'
  if (code === 'ERR_SSL_WRONG_VERSION_NUMBER' || code === 'ERR_SSL_PACKET_LENGTH_TOO_LONG')
    return 'The server does not speak TLS on that port: use http:// instead of https://, or the port of its TLS proxy.'
  if (/CERT|SELF_SIGNED|ALTNAME/.test(code))
    return 'The certificate of the server is not trusted. NODE_EXTRA_CA_CERTS=FILE names the certificate of your own authority.'
  return 'Check the address and your network.'
}
