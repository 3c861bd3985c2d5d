import type { Server } from 'node:https'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, onTestFinished, test } from 'vitest'
import type { Exchange } from '../../src/webhooks/sending/exchange.ts'
import { createReceiverConnections } from '../../src/webhooks/sending/receiver-connections.ts'
import { until } from './support/delivery-test.ts'
import { receiverFor } from './support/receiver.ts'
import { connectWith, idleConnections, limits, sendingTo } from './support/sender.ts'

/** Of each attempt. Small enough that V8 does not come to collect everything for their sake. */
const carriedBytes = 2 ** 16

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as (options?: { type: 'minor' }) => void

// Seen to fail while attempts on their way stood in a map: 250 of the 400 are there still.
test('an attempt that has come to its end goes with the next small collection, and all that hung on it', async () => {
  const remote = await receiverFor()
  const connect = connectWith()
  const receiver = createReceiverConnections(new URL(remote.url), { connect, limits, idleConnections, now: Date.now })
  onTestFinished(() => receiver.close())
  const send = () =>
    new Promise<Exchange>((done) =>
      receiver.send([], Buffer.from('{}'), Object.assign(done, { carried: new ArrayBuffer(carriedBytes) })),
    )
  const there = () => Math.round(process.memoryUsage().arrayBuffers / carriedBytes)
  const round = async () => {
    await Promise.all(Array.from({ length: 8 }, send))
    collect({ type: 'minor' })
  }
  for (let i = 0; i < 5; i++) await round()
  collect()
  const before = there()
  for (let i = 0; i < 50; i++) await round()
  await until(() => there() - before < 40, 'the attempts to be collected')
})

// Seen to fail while a socket kept whoever had waited for its connection: 12 MB are there still.
test('a connection that is kept keeps nothing of what it has carried', async () => {
  const prepare = (server: Server) => void Object.assign(server, { keepAliveTimeout: 60_000 })
  const remote = await receiverFor(undefined, { prepare })
  const send = sendingTo(remote.url)
  const many = (body: Buffer) => Promise.all(Array.from({ length: 50 }, () => send(Buffer.from(body))))
  const before = process.memoryUsage().arrayBuffers
  await many(Buffer.alloc(250_000))
  await many(Buffer.from('{}'))
  expect(remote.connections).toBe(50)
  remote.received.length = 0
  await until(() => {
    collect()
    return process.memoryUsage().arrayBuffers - before < 2_000_000
  }, 'the bodies to be collected')
})
