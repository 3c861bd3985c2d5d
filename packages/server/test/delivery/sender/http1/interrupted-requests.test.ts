import type { Server } from 'node:https'
import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { until } from '../../../kit/until.ts'
import { type Reply, receiverFor } from '../../support/receiver.ts'
import { limits, type SenderOptions, sendersForTest, sendWith } from '../../support/sender.ts'

async function sending(reply: Reply, options: SenderOptions = {}) {
  const sockets: Socket[] = []
  const prepare = (server: Server) => void server.on('connection', (socket) => sockets.push(socket))
  const receiver = await receiverFor(() => reply, { prepare })
  const senders = sendersForTest(options)
  const url = new URL(receiver.url)
  // With a resolver, by a name that the receiver's certificate has.
  if (options.resolve) url.hostname = 'a.receiver.test'
  const sender = senders.open(url.href)
  return { receiver, sockets, senders, sender, send: () => sendWith(sender) }
}

test('a request that times out closes its connection', async () => {
  const { receiver, send } = await sending({ delayMs: limits.attemptMsMax + 1_000 })
  expect((await send()).error?.code).toBe('timeout')
  await until(() => receiver.open === 0)
})

test('a request that is interrupted closes its connection', async () => {
  const { receiver, sender, send } = await sending({ delayMs: 1_000 })
  const ended = send()
  await until(() => receiver.received.length === 1)
  sender.interrupt()
  expect(await ended).toMatchObject({ status: 'interrupted', response: null })
  await until(() => receiver.open === 0)
})

test('a request that is interrupted while it connects is not sent', async () => {
  const { promise, resolve } = Promise.withResolvers<{ address: string; family: 4 | 6 }[]>()
  const lookUp = () => ({ addresses: promise, cancel() {} })
  const { receiver, sockets, sender, send } = await sending({}, { resolve: lookUp })
  const ended = send()
  sender.interrupt()
  expect(await ended).toMatchObject({ status: 'interrupted', response: null })
  resolve([{ address: '127.0.0.1', family: 4 }])
  await until(() => sockets[0]?.destroyed)
  expect(receiver.received).toEqual([])
})

test('a request that is interrupted before it leaves on an idle connection is not sent', async () => {
  const { receiver, sender, send } = await sending({})
  await send()
  const ended = send()
  sender.interrupt()
  expect(await ended).toMatchObject({ status: 'interrupted', address: '127.0.0.1' })
  await until(() => receiver.open === 0)
  expect(receiver.received).toHaveLength(1)
})

test('a sender that replaces another one for the same lane lets its requests end, and keeps no connection', async () => {
  const { receiver, senders, send } = await sending({ delayMs: 100 })
  const ended = send()
  await until(() => receiver.received.length === 1)
  senders.open('https://127.0.0.1:1/', { laneId: 1 })
  expect(await ended).toMatchObject({ status: 'succeeded' })
  await until(() => receiver.open === 0)
  expect(receiver.connections).toBe(1)
})

test('closing all senders interrupts what is in flight', async () => {
  const { receiver, senders, send } = await sending({ delayMs: 1_000 })
  const ended = send()
  await until(() => receiver.received.length === 1)
  senders.close()
  expect(await ended).toMatchObject({ status: 'interrupted', error: { code: 'interrupted' } })
})
