import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { deleteWebhook } from '../../src/store/webhooks.ts'
import { deliveryTest, until } from './support/delivery-test.ts'
import { receiverFor } from './support/receiver.ts'

/** Longer than an attempt may take to leave after it was begun. */
const holdMs = 1_000

/** A receiver that takes connections at once and greets nobody for a while. */
async function slowToGreet() {
  const receiver = await receiverFor()
  const { hostname, port } = new URL(receiver.url)
  let connections = 0
  const proxy = createServer(async (client) => {
    connections += 1
    client.on('error', () => {})
    await sleep(holdMs)
    const server = connect(Number(port), hostname).on('error', () => {})
    client.pipe(server).pipe(client)
  })
  proxy.listen(0, hostname)
  await once(proxy, 'listening')
  onTestFinished(() => void proxy.close())
  const url = new URL(receiver.url)
  url.port = String((proxy.address() as AddressInfo).port)
  return { url: url.href, receiver, connections: () => connections }
}

// Seen to fail without the question, with a POST a second after the deletion.
test('what was still connecting when its webhook was deleted does not leave', async () => {
  const { url, receiver, connections } = await slowToGreet()
  const world = await deliveryTest()
  const webhook = await world.addWebhook(url)
  await world.startDispatcher()
  await world.publishOne()
  await until(() => connections() === 1)
  await world.db.begin((tx) => deleteWebhook(tx, world.orgId, webhook.id))
  const [attempt] = await until(async () => {
    const attempts = await world.attempts()
    return attempts.length > 0 && attempts
  })
  expect(attempt).toMatchObject({ status: 'interrupted', error_code: 'interrupted', next_attempt_at: null })
  await sleep(holdMs / 2)
  expect(receiver.received).toHaveLength(0)
})

test('one that is there gets what it was slow to greet', async () => {
  const { url, receiver, connections } = await slowToGreet()
  const world = await deliveryTest()
  await world.addWebhook(url)
  await world.startDispatcher()
  await world.publishOne()
  await until(async () => (await world.attempts()).length === 1)
  expect(await world.attempts()).toMatchObject([{ status: 'succeeded', attempt: 1 }])
  expect([receiver.received.length, connections()]).toEqual([1, 1])
})
