import { expect, onTestFinished, test } from 'vitest'
import type { Exchange } from '../../src/webhooks/sending/exchange.ts'
import { createIdleConnections } from '../../src/webhooks/sending/idle-connections.ts'
import { createReceiverConnections } from '../../src/webhooks/sending/receiver-connections.ts'
import { until } from './support/delivery-test.ts'
import { receiverFor } from './support/receiver.ts'
import { connectWith, limits } from './support/sender.ts'

async function receiversOf(count: number, idleMax: number) {
  const idleConnections = createIdleConnections(idleMax)
  const made = []
  for (let n = 0; n < count; n++) {
    const remote = await receiverFor()
    const sender = createReceiverConnections(new URL(remote.url), {
      connect: connectWith(),
      limits,
      idleConnections,
      now: Date.now,
    })
    onTestFinished(() => sender.close())
    const send = async () => {
      const { status } = await new Promise<Exchange>((done) => sender.send([], Buffer.from('{}'), done))
      expect(status).toBe('succeeded')
    }
    made.push({ send, remote })
  }
  return made
}

// Seen to fail without a bound: all three stay open.
test('of connections that carry nothing, the one that was used longest ago is closed when there are too many', async () => {
  const [a, b, c] = await receiversOf(3, 2)
  await a!.send()
  await b!.send()
  await a!.send()
  await c!.send()
  await until(async () => b!.remote.open === 0, 'the connection to b to be closed')
  expect([a!.remote.open, c!.remote.open]).toEqual([1, 1])
  await b!.send()
  await until(async () => a!.remote.open === 0, 'the connection to a to be closed')
  expect([b!.remote.open, c!.remote.open]).toEqual([1, 1])
  expect([a!, b!, c!].map(({ remote }) => remote.connections)).toEqual([1, 2, 1])
})

test('what is on its way does not count, and is not closed', async () => {
  const [a, b] = await receiversOf(2, 1)
  await Promise.all([a!.send(), a!.send(), a!.send(), b!.send()])
  await until(async () => a!.remote.open + b!.remote.open === 1, 'all but one to be closed')
})
