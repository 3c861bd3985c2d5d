import { timingSafeEqual } from 'node:crypto'
import { createServer, type Server } from 'node:https'
import { createSigner } from '../domain/signature.ts'
import type { Certificate } from './certificate.ts'

/** Enough for any event of ours, and not for a stranger to fill the terminal with. */
const bodyBytesMax = 256 * 1024

export type Received = {
  event: string
  signature: 'good' | 'bad' | 'unchecked'
  body: string
}

/** A receiver as a customer would write one: read the raw body, check the signature, answer. */
export function createReceiver(deps: {
  certificate: Certificate
  serviceName: string
  status: number
  secret(): Promise<string | null>
  onReceived(received: Received): void
}): Server {
  const { certificate, key } = deps.certificate
  const prefix = `x-${deps.serviceName.toLowerCase()}`
  return createServer({ cert: certificate, key }, async (request, response) => {
    const chunks: Buffer[] = []
    let bytes = 0
    for await (const chunk of request) {
      bytes += (chunk as Buffer).length
      if (bytes > bodyBytesMax) return response.writeHead(413).end()
      chunks.push(chunk as Buffer)
    }
    const body = Buffer.concat(chunks)
    const secret = await deps.secret()
    const given = String(request.headers[`${prefix}-signature`] ?? '')
    const signature = secret === null ? 'unchecked' : isSigned(body, secret, given) ? 'good' : 'bad'
    deps.onReceived({
      event: String(request.headers[`${prefix}-event`] ?? '?'),
      signature,
      body: body.toString('utf8'),
    })
    response.writeHead(signature === 'bad' ? 401 : deps.status).end()
  })
}

function isSigned(body: Buffer, secret: string, given: string): boolean {
  const wanted = Buffer.from(createSigner(secret).body(body))
  const shown = Buffer.from(given)
  return wanted.length === shown.length && timingSafeEqual(wanted, shown)
}
