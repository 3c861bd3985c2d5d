import { readFileSync } from 'node:fs'
import { onTestFinished } from 'vitest'
import { readNetwork } from '../../../src/domain/network.ts'
import { createAddressGuard } from '../../../src/webhooks/sending/address-guard.ts'
import { createConnect } from '../../../src/webhooks/sending/connector.ts'
import type { Exchange } from '../../../src/webhooks/sending/exchange.ts'
import { createIdleConnections } from '../../../src/webhooks/sending/idle-connections.ts'
import { createReceiverConnections } from '../../../src/webhooks/sending/receiver-connections.ts'
import { createResolve, type Resolve } from '../../../src/webhooks/sending/resolve.ts'
import { createDeliveryContext } from '../../../src/webhooks/sending/secure-context.ts'
import { caFile } from './receiver.ts'

export const limits = {
  attemptMsMax: 1_500,
  responseKeptBytesMax: 16_384,
  responseBytesMax: 1_048_576,
  responseHeaderBytesMax: 16_384,
}

export const idleConnections = createIdleConnections(100)

const local = ['127.0.0.0/8', '::1/128'].map((cidr) => readNetwork(cidr)!)

/** What opens the connections of the real sender, to receivers on this machine. */
export const connectWith = (options: { resolve?: Resolve; allowed?: typeof local } = {}) =>
  createConnect({
    resolve: options.resolve ?? createResolve(),
    allows: createAddressGuard(options.allowed ?? local),
    secureContext: createDeliveryContext(readFileSync(caFile, 'utf8')),
    connectMsMax: 600,
  })

/** Sends one request after the other as to one webhook, through the real sender, which is closed when the test is. */
export function sendingTo(url: string, connect = connectWith()): (body?: Buffer) => Promise<Exchange> {
  const receiver = createReceiverConnections(new URL(url), { connect, limits, idleConnections, now: Date.now })
  onTestFinished(() => receiver.close())
  return (body = Buffer.from('{"a":1}')) =>
    new Promise((done) => receiver.send(['content-type', 'application/json'], body, done))
}

/** One attempt, and how long it took. */
export async function attempt(url: string, connect = connectWith()): Promise<Exchange & { tookMs: number }> {
  const send = sendingTo(url, connect)
  const begun = performance.now()
  const exchange = await send()
  return { ...exchange, tookMs: performance.now() - begun }
}
