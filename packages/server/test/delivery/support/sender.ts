import { readFileSync } from 'node:fs'
import { onTestFinished } from 'vitest'
import type { Http1Limits, Resolve } from '../../../src/delivery/sender/http1/client.ts'
import type { Exchange, Sender, SendRequest } from '../../../src/delivery/sender/port.ts'
import { createSenders } from '../../../src/delivery/sender/senders.ts'
import { newId, type WebhookId } from '../../../src/lib/ids.ts'
import { createMasterKeys } from '../../../src/lib/master-keys.ts'
import { readNetwork } from '../../../src/lib/network.ts'
import { caFile } from './receiver.ts'

export const limits: Http1Limits = {
  attemptMsMax: 1_500,
  connectMsMax: 600,
  responseKeptBytesMax: 16_384,
  responseBytesMax: 1_048_576,
  responseHeaderBytesMax: 16_384,
  idleMax: 100,
}

const loopback = ['127.0.0.0/8', '::1/128'].map((cidr) => readNetwork(cidr)!)

export type SenderOptions = {
  resolve?: Resolve
  allowNetworks?: typeof loopback
  idleMax?: number
  now?: () => number
}

/** The real senders of a process, for receivers on this machine. They are closed when the test ends. */
export function sendersForTest({
  resolve,
  allowNetworks = loopback,
  idleMax = 100,
  now = Date.now,
}: SenderOptions = {}) {
  const masterKeys = createMasterKeys([Buffer.alloc(32, 7)])
  const senders = createSenders({
    masterKeys,
    settings: {
      serviceName: 'Service',
      standardWebhooks: false,
      allowNetworks,
      extraCa: readFileSync(caFile, 'utf8'),
      limits: { ...limits, idleMax },
    },
    now,
    onUnreadable() {},
    ...(resolve && { resolve }),
  })
  onTestFinished(() => senders.close())
  const secret = `whsec_${Buffer.alloc(32, 3).toString('base64')}`
  let lanes = 0
  return {
    open(url: string, { laneId = ++lanes, webhookId = newId('wh') as WebhookId, version = 0 } = {}): Sender {
      const sealed = masterKeys.seal(secret, webhookId)
      return senders.open({ laneId, orgId: newId('org'), webhookId, version, url, secret: sealed, rotation: null })!
    },
    close: () => senders.close(),
  }
}

/** Sends one request and waits for its end. */
export const sendWith = (sender: Sender, request: Partial<SendRequest> = {}): Promise<Exchange> =>
  new Promise((done) =>
    sender.send(
      {
        eventId: 'evt_1',
        eventType: 'database.created',
        body: Buffer.from('{"a":1}'),
        startedAtMs: Date.now(),
        sequence: 1,
        previousSequence: null,
        sendByMs: Number.POSITIVE_INFINITY,
        mayStillSend: async () => true,
        ...request,
      },
      done,
    ),
  )

/** Sends requests to one webhook, one after the other. */
export function sendingTo(url: string, options: SenderOptions = {}): (body?: Buffer) => Promise<Exchange> {
  const sender = sendersForTest(options).open(url)
  return (body) => sendWith(sender, body && { body })
}

/** One attempt, and how long it took. */
export async function attempt(url: string, options: SenderOptions = {}): Promise<Exchange & { tookMs: number }> {
  const send = sendingTo(url, options)
  const startedMs = performance.now()
  const exchange = await send()
  return { ...exchange, tookMs: performance.now() - startedMs }
}
