import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import type { Connect } from '../../src/webhooks/sending/connector.ts'
import type { Exchange } from '../../src/webhooks/sending/exchange.ts'
import { createReceiverConnections } from '../../src/webhooks/sending/receiver-connections.ts'
import { until } from './support/delivery-test.ts'
import { type Reply, receiverFor } from './support/receiver.ts'
import { connectWith, idleConnections, limits } from './support/sender.ts'

/*
 * What becomes of connections when an attempt is given up, or nobody is left to use them.
 */

async function sending(reply: Reply, connect: Connect = connectWith()) {
  const remote = await receiverFor(() => reply)
  const receiver = createReceiverConnections(new URL(remote.url), { connect, limits, idleConnections, now: Date.now })
  onTestFinished(() => receiver.close())
  const send = () => new Promise<Exchange>((done) => receiver.send([], Buffer.from('{}'), done))
  return { remote, receiver, send }
}

test('an attempt that took too long takes its connection with it', async () => {
  const { remote, send } = await sending({ delayMs: limits.attemptMsMax + 1_000 })
  expect((await send()).error?.code).toBe('timeout')
  await until(() => remote.open === 0, 'the connection to be closed')
})

test('and so does one that is interrupted', async () => {
  const { remote, receiver, send } = await sending({ delayMs: 1_000 })
  const ended = send()
  await until(() => remote.received.length === 1)
  receiver.interrupt()
  expect(await ended).toMatchObject({ status: 'interrupted', response: null })
  await until(() => remote.open === 0, 'the connection to be closed')
})

test('one that is interrupted while it connects sends nothing', async () => {
  const connect = connectWith()
  let connected = 0
  const slowly: Connect = (target, sessions, facts, done) =>
    connect(target, sessions, facts, (error, socket) => {
      connected += 1
      setTimeout(() => done(error, socket), 100)
    })
  const { remote, receiver, send } = await sending({}, slowly)
  const ended = send()
  await until(() => connected === 1)
  receiver.interrupt()
  expect(await ended).toMatchObject({ status: 'interrupted', response: null })
  await until(() => remote.connections === 1 && remote.open === 0, 'the connection to be closed')
  expect(remote.received).toEqual([])
})

test('one that is interrupted before it leaves on a connection that was kept sends nothing', async () => {
  const { remote, receiver, send } = await sending({})
  await send()
  const ended = send()
  receiver.interrupt()
  expect(await ended).toMatchObject({ status: 'interrupted', address: '127.0.0.1' })
  await until(() => remote.open === 0, 'the connection to be closed')
  await sleep(20)
  expect(remote.received).toHaveLength(1)
})

test('after closing, what is on its way comes to its end, and nothing is kept', async () => {
  const { remote, receiver, send } = await sending({ delayMs: 100 })
  const ended = send()
  await until(() => remote.received.length === 1)
  receiver.close()
  expect(await ended).toMatchObject({ status: 'succeeded' })
  await until(() => remote.open === 0, 'the connection to be closed')
})
