import type { SendErrorCode } from '@keyhook/client'

type Explanation = { title: string; fix: string }

/** Why an attempt failed, in plain words, and what its receiver can do. */
const explanations: Record<SendErrorCode, Explanation> = {
  dns_failed: {
    title: 'The host name could not be found',
    fix: 'Check the spelling of the URL, and that the host name has a public DNS record.',
  },
  dns_timeout: {
    title: 'The DNS server did not answer',
    fix: 'Check the name servers of the domain.',
  },
  address_forbidden: {
    title: 'The address is not allowed',
    fix: 'The host name resolves to a private or reserved address. Use a public address, or ask the operator to allow this network.',
  },
  connect_refused: {
    title: 'No server accepts connections on this port',
    fix: 'Start the endpoint, and check the port and the firewall.',
  },
  connect_unreachable: {
    title: 'The network cannot be reached',
    fix: 'Check routing and firewalls in front of the endpoint.',
  },
  connect_timeout: {
    title: 'The connection was not accepted in time',
    fix: 'A firewall may drop our packets, or the machine is overloaded. Allow incoming connections on this port.',
  },
  connect_failed: {
    title: 'The connection failed',
    fix: 'Check that the endpoint is running and reachable from outside.',
  },
  tls_failed: {
    title: 'The TLS handshake failed',
    fix: 'Check that this port speaks TLS 1.2 or later. `openssl s_client -connect host:443` shows more.',
  },
  tls_timeout: {
    title: 'The TLS handshake took too long',
    fix: 'The endpoint may be overloaded.',
  },
  tls_certificate_invalid: {
    title: 'The certificate is not valid',
    fix: 'Install a certificate for this host name that has not expired, with its whole chain.',
  },
  timeout: {
    title: 'The endpoint did not answer in time',
    fix: 'Answer with 2xx first and do the work after that, for example from a queue.',
  },
  connection_closed: {
    title: 'The connection was closed before an answer',
    fix: 'Look for a crash or restart in the log of the endpoint at this time.',
  },
  connection_reset: {
    title: 'The connection was reset',
    fix: 'Look for a crash in the endpoint, or a proxy in front of it that limits requests.',
  },
  response_malformed: { title: 'The response is not valid HTTP', fix: 'Check which program listens on this port.' },
  response_headers_too_large: {
    title: 'The headers of the response are too large',
    fix: 'Send fewer or smaller headers.',
  },
  response_too_large: { title: 'The response is too large', fix: 'Answer with an empty or short body.' },
  redirect_not_followed: {
    title: 'The endpoint answered with a redirect',
    fix: 'Redirects are not followed. Change the URL of the webhook to the final address.',
  },
  status_not_successful: {
    title: 'The endpoint answered with an error',
    fix: 'Answer with a status from 200 to 299 as soon as you have stored the event.',
  },
  sender_exhausted: {
    title: 'The sender was out of resources',
    fix: 'You need not do anything: the delivery is retried.',
  },
  interrupted: {
    title: 'The attempt was interrupted',
    fix: 'The dispatcher stopped before it knew the outcome. The event is sent again, so it may arrive twice.',
  },
}

/** For a choice among them. */
export const errorTitles: Record<string, string> = Object.fromEntries(
  Object.entries(explanations).map(([code, { title }]) => [code, title]),
)

const byStatus: Record<number, Explanation> = {
  400: {
    title: 'The endpoint found the request invalid',
    fix: 'Check how the endpoint parses the body and headers below.',
  },
  401: {
    title: 'The endpoint did not authorize the request',
    fix: 'A wrong secret is the usual reason: verify with the secret of this webhook. If your server requires a login on this path, exclude the path from that check.',
  },
  403: {
    title: 'The endpoint refused the request',
    fix: 'A firewall or a wrong secret is the usual reason. Verify with the secret of this webhook.',
  },
  404: { title: 'The endpoint has no such path', fix: 'Check the path of the URL.' },
  405: { title: 'The path does not accept POST', fix: 'Deliveries are POST requests. Route them to your handler.' },
  410: {
    title: 'The endpoint answered that it is gone',
    fix: '410 ends all retries of an event. Delete the webhook if it is no longer needed.',
  },
  413: { title: 'The body was too large for the endpoint', fix: 'Raise the body limit of the server or proxy.' },
  429: {
    title: 'The endpoint is limiting requests',
    fix: 'Set a rate limit for this webhook, or raise the limit of the endpoint.',
  },
  500: { title: 'The endpoint failed', fix: 'Look at the log of the endpoint at this time.' },
  502: {
    title: 'The proxy could not reach the endpoint',
    fix: 'Check that the application behind the proxy is running.',
  },
  503: {
    title: 'The endpoint is not available',
    fix: 'The endpoint may be starting or overloaded.',
  },
  504: { title: 'The proxy waited too long for the endpoint', fix: 'Answer first, and do the work after that.' },
}

export function explainAttempt(code: string | null, status: number | null): Explanation {
  if (code === 'status_not_successful' || code === null) {
    const known = status === null ? undefined : byStatus[status]
    if (known !== undefined) return known
  }
  return (
    explanations[code as SendErrorCode] ?? {
      title: 'The attempt failed',
      fix: 'See the details below.',
    }
  )
}

/** Short, for a cell: "503" or the title. */
export const failureText = (code: string | null, status: number | null): string =>
  status === null ? explainAttempt(code, status).title : `HTTP ${status}: ${explainAttempt(code, status).title}`
