import { timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import { createSigner } from '../domain/signature.ts'
import type { Certificate } from './certificate.ts'

/** The largest `data` that KEYHOOK_EVENT_BYTES_MAX allows, and its envelope. */
const bodyBytesMax = 1_048_576 + 16_384

export type Received = { event: string } & (
  | { signature: 'good' | 'bad'; body: string }
  | { signature: 'unchecked'; why: string | null; body: string }
  | { refused: string }
)

/** The secret for checking signatures, or why there is none: null means that no check was requested. */
export type Secret = { secret: string } | { why: string | null }

type Deps = {
  certificate: Certificate
  serviceName: string
  status: number
  secret(): Promise<Secret>
  onReceived(received: Received): void
}

/** A receiver as a customer would write one: read the raw body, check the signature, answer. */
export function createListenServer(deps: Deps): Server {
  const { certificate, key } = deps.certificate
  return createServer({ cert: certificate, key }, (request, response) => {
    // The sender closed the connection before the end: there is nothing to show.
    receive(deps, request, response).catch(() => response.destroy())
  })
}

async function receive(deps: Deps, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const prefix = `x-${deps.serviceName.toLowerCase()}`
  const event = String(request.headers[`${prefix}-event`] ?? '?')
  const body = await read(request)
  if (body === null) {
    deps.onReceived({ event, refused: `a body of more than ${bodyBytesMax} bytes` })
    response.writeHead(413).end()
    // Read and discard the rest: a sender that is still writing would get a closed connection instead of the answer.
    request.resume()
    return
  }
  const checked = check(body, await deps.secret(), String(request.headers[`${prefix}-signature`] ?? ''))
  deps.onReceived({ event, ...checked, body: body.toString('utf8') })
  response.writeHead(checked.signature === 'bad' ? 401 : deps.status).end()
}

/** Null if the body is too large. */
async function read(request: IncomingMessage): Promise<Buffer | null> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    bytes += (chunk as Buffer).length
    if (bytes > bodyBytesMax) return null
    chunks.push(chunk as Buffer)
  }
  return Buffer.concat(chunks)
}

function check(body: Buffer, secret: Secret, given: string) {
  if ('why' in secret) return { signature: 'unchecked', why: secret.why } as const
  return { signature: isSigned(body, secret.secret, given) ? 'good' : 'bad' } as const
}

function isSigned(body: Buffer, secret: string, given: string): boolean {
  const wanted = Buffer.from(createSigner(secret).body(body))
  const shown = Buffer.from(given)
  return wanted.length === shown.length && timingSafeEqual(wanted, shown)
}
