import { once } from 'node:events'
import type { Server } from 'node:https'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { deleteWebhook } from '../../../src/webhooks/sql.ts'
import { until } from '../../kit/until.ts'
import { deliveryTest } from '../support/delivery-test.ts'
import { receiverFor } from '../support/receiver.ts'
import { sendersForTest, sendWith } from '../support/sender.ts'

/** Longer than the time in which an attempt has to leave. */
const handshakeMs = 1_000

/** A receiver that accepts connections at once and starts the TLS handshake late. */
async function slowReceiver() {
  const receiver = await receiverFor()
  const { hostname, port } = new URL(receiver.url)
  const counts = { accepted: 0, closed: 0 }
  const proxy = createServer((client) => {
    counts.accepted += 1
    client.on('error', () => {})
    client.on('close', () => {
      counts.closed += 1
    })
    setTimeout(() => {
      const server = connect(Number(port), hostname).on('error', () => {})
      client.pipe(server).pipe(client)
    }, handshakeMs)
  })
  proxy.listen(0, hostname)
  await once(proxy, 'listening')
  onTestFinished(() => void proxy.close())
  const url = new URL(receiver.url)
  url.port = String((proxy.address() as AddressInfo).port)
  return { url: url.href, receiver, counts }
}

// Fails without `mayStillSend`: the POST arrives a second after the deletion.
test('an attempt that was connecting when its webhook was deleted is not sent', async () => {
  const { url, receiver, counts } = await slowReceiver()
  const world = await deliveryTest()
  const webhook = await world.addWebhook(url)
  await world.startDispatcher()
  await world.publishOne()
  await until(() => counts.accepted === 1)
  await world.db.begin((tx) => deleteWebhook(tx, world.orgId, webhook.id))
  const [attempt] = await until(async () => {
    const attempts = await world.attempts()
    return attempts.length > 0 && attempts
  })
  expect(attempt).toMatchObject({ status: 'interrupted', error_code: 'interrupted', next_attempt_at: null })
  await until(() => counts.closed === 1)
  expect(receiver.received).toHaveLength(0)
})

test('an attempt with a slow handshake is sent once, when its webhook still exists', async () => {
  const { url, receiver, counts } = await slowReceiver()
  const world = await deliveryTest()
  await world.addWebhook(url)
  await world.startDispatcher()
  await world.publishOne()
  await until(async () => (await world.attempts()).length === 1)
  expect(await world.attempts()).toMatchObject([{ status: 'succeeded', attempt: 1 }])
  expect([receiver.received.length, counts.accepted]).toEqual([1, 1])
})

test.each<[string, () => Promise<boolean>]>([
  ['is not allowed', async () => false],
  ['cannot be decided', () => Promise.reject(new Error('database away'))],
])('a late request that %s is interrupted and not sent', async (_what, mayStillSend) => {
  const sockets: Socket[] = []
  const prepare = (server: Server) => void server.on('connection', (socket) => sockets.push(socket))
  const receiver = await receiverFor(undefined, { prepare })
  const sender = sendersForTest().open(receiver.url)
  const exchange = await sendWith(sender, { sendByMs: Date.now() - 1, mayStillSend })
  expect(exchange).toMatchObject({ status: 'interrupted', error: { code: 'interrupted' }, response: null })
  await until(() => sockets[0]?.destroyed)
  expect(receiver.received).toEqual([])
})

test('a late request that is still allowed is sent on the same connection', async () => {
  const receiver = await receiverFor()
  const sender = sendersForTest().open(receiver.url)
  const request = { sendByMs: Date.now() - 1, mayStillSend: async () => true }
  expect(await sendWith(sender, request)).toMatchObject({ status: 'succeeded' })
  expect([receiver.connections, receiver.received.length]).toEqual([1, 1])
})

test('a receiver that closes while a late request waits for permission is reported as a reset', async () => {
  const receiver = await receiverFor()
  const sender = sendersForTest().open(receiver.url)
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const sent = sendWith(sender, { sendByMs: Date.now() - 1, mayStillSend: () => promise })
  await until(() => receiver.open === 1)
  await receiver.close()
  resolve(true)
  expect(await sent).toMatchObject({ status: 'failed', response: null })
})
