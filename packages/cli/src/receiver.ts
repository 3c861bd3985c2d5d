import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import { setTimeout } from 'node:timers/promises'
import { verifyWebhook, WebhookVerificationError } from '@keyhook/client'
import type { Certificate } from './certificate.ts'

export { type Certificate, localCertificate } from './certificate.ts'

/** The largest `data` that KEYHOOK_EVENT_BYTES_MAX allows, and its envelope. */
const bodyBytesMax = 1_048_576 + 16_384

/** How to answer, so that one can see what Keyhook does about it. */
type Behaviour = { status: number; delayMs: number; hang: boolean }

export type Received = { at: string; event: string; id: string | null; answer: number | null } & (
  | { signature: 'good'; body: string }
  | { signature: 'bad'; why: string; body: string }
  | { signature: 'unchecked'; why: string | null; body: string }
  | { refused: string }
)

/** The secret for checking signatures, or why there is none: null means that no check was requested. */
export type Secret = { secret: string } | { why: string | null }

type Deps = {
  certificate: Certificate
  behaviour: Behaviour
  secret(): Promise<Secret>
  onReceived(received: Received): void
}

/** A receiver as a customer would write one: read the raw body, verify the signature, answer. */
export function createReceiver(deps: Deps): Server {
  const { certificate, key } = deps.certificate
  return createServer({ cert: certificate, key }, (request, response) => {
    // The sender closed the connection before the end: there is nothing to show.
    receive(deps, request, response).catch(() => response.destroy())
  })
}

async function receive(deps: Deps, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const facts = { at: new Date().toISOString(), ...eventOf(request) }
  const body = await read(request)
  if (body === null) {
    deps.onReceived({ ...facts, answer: 413, refused: `a body of more than ${bodyBytesMax} bytes` })
    response.writeHead(413).end()
    // Read and discard the rest: a sender that is still writing would get a closed connection instead of the answer.
    request.resume()
    return
  }
  const checked = await check(body, await deps.secret(), request)
  const { status, delayMs, hang } = deps.behaviour
  const answer = hang ? null : checked.signature === 'bad' ? 401 : status
  deps.onReceived({ ...facts, answer, ...checked, body: body.toString('utf8') })
  if (answer === null) return
  await setTimeout(delayMs)
  response.writeHead(answer).end()
}

const headerEnd = /^x-(.+)-event$/

/** The operator can set the word in the middle of the header. */
function eventOf({ headers }: IncomingMessage): { event: string; id: string | null } {
  const name = Object.keys(headers).find((one) => headerEnd.test(one))
  return { event: name === undefined ? '?' : String(headers[name]), id: headers['webhook-id']?.toString() ?? null }
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

/** Both signatures, where both are sent: an operator can switch off those of Standard Webhooks. */
async function check(body: Buffer, given: Secret, { headers }: IncomingMessage) {
  if ('why' in given) return { signature: 'unchecked', why: given.why } as const
  const service = Object.keys(headers).flatMap((name) => headerEnd.exec(name)?.[1] ?? [])[0]
  const options = { body, headers, secret: given.secret, service }
  try {
    await verifyWebhook({ ...options, signature: 'body' })
    if (headers['webhook-signature'] !== undefined) await verifyWebhook({ ...options, signature: 'standard' })
    return { signature: 'good' } as const
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error
    return { signature: 'bad', why: error.message } as const
  }
}
