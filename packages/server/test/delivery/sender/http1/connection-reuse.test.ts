import { setTimeout as sleep } from 'node:timers/promises'
import type { TLSSocket } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../../kit/until.ts'
import { receiverFor, resetBelow, startHostile } from '../../support/receiver.ts'
import { sendingTo } from '../../support/sender.ts'

const ok = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n'

/** Answers every request, and notes the number of its connection. */
async function answering(answer: (socket: TLSSocket, nth: number) => void) {
  const usedConnections: number[] = []
  const sockets: TLSSocket[] = []
  const receiver = await startHostile((socket, first) => {
    const connection = sockets.push(socket)
    const take = (request: Buffer) => {
      if (!request.toString('latin1').startsWith('POST ')) return
      usedConnections.push(connection)
      answer(socket, usedConnections.length)
    }
    take(first)
    socket.on('data', take)
  })
  onTestFinished(() => receiver.close())
  return { usedConnections, sockets, send: sendingTo(receiver.url) }
}

const notReusable: [string, (socket: TLSSocket) => void][] = [
  ['sends `connection: close`', (socket) => void socket.write(`${ok}connection: close\r\n\r\nok`)],
  ['answers with HTTP/1.0', (socket) => void socket.write('HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok')],
  ['keeps connections alive for two seconds', (socket) => void socket.write(`${ok}keep-alive: timeout=2\r\n\r\nok`)],
  ['sends a second response', (socket) => void socket.write(`${ok}\r\nok${ok}\r\nno`)],
  [
    'sends a second response a moment later',
    (socket) => {
      socket.write(`${ok}\r\nok`)
      setTimeout(() => socket.write(`${ok}\r\nno`), 20)
    },
  ],
  ['announces a body for a 204', (socket) => void socket.write('HTTP/1.1 204 x\r\ncontent-length: 2\r\n\r\n')],
  ['closes without announcing it', (socket) => void socket.end(`${ok}\r\nok`)],
  [
    'resets without announcing it',
    (socket) => {
      socket.write(`${ok}\r\nok`, () => setTimeout(() => resetBelow(socket), 10))
    },
  ],
]

test('a connection is reused for the next request to the same receiver', async () => {
  const receiver = await receiverFor()
  const send = sendingTo(receiver.url)
  expect((await send()).connectUs).not.toBeNull()
  expect(await send()).toMatchObject({ status: 'succeeded', connectUs: null, address: '127.0.0.1' })
  expect(receiver.connections).toBe(1)
})

test.each(notReusable)('a receiver that %s gets the next request on a new connection', async (_what, answer) => {
  const { usedConnections, sockets, send } = await answering(answer)
  for (let i = 0; i < 3; i++) {
    expect(await send()).toMatchObject({ status: 'succeeded', error: null })
    await until(() => sockets[i]!.destroyed)
  }
  expect(usedConnections).toEqual([1, 2, 3])
})

// Both responses have arrived when the first is read. Fails if the next request is sent at once: it gets the second one.
test('bytes that have arrived are read before the next request is sent', async () => {
  const recordBytes = 512
  const rest = '\r\n\r\nok'
  const first = `${ok}x: `.padEnd(recordBytes - rest.length, 'x') + rest
  const { usedConnections, send } = await answering((socket) => {
    socket.setMaxSendFragment(recordBytes)
    socket.write(`${first}${ok}\r\nno`)
  })
  for (let i = 0; i < 3; i++) expect((await send()).response).toMatchObject({ body: 'ok' })
  expect(usedConnections).toEqual([1, 2, 3])
})

const reusable: [string, string][] = [
  ['sends no keep-alive header', `${ok}\r\nok`],
  [
    'sends `connection: keep-alive` with HTTP/1.0',
    'HTTP/1.0 200 OK\r\ncontent-length: 2\r\nconnection: keep-alive\r\n\r\nok',
  ],
  ['keeps connections alive for a minute', `${ok}keep-alive: max=9, timeout=60\r\n\r\nok`],
  ['sends a chunked response', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n'],
  ['ends its response with an extra empty line', `${ok}\r\nok\r\n`],
  ['answers 503', 'HTTP/1.1 503 x\r\ncontent-length: 0\r\n\r\n'],
]

test.each(reusable)('a receiver that %s gets the next request on the same connection', async (_what, answer) => {
  const { usedConnections, send } = await answering((socket) => void socket.write(answer))
  for (let i = 0; i < 3; i++) expect((await send()).response).not.toBeNull()
  expect(usedConnections).toEqual([1, 1, 1])
})

test('an idle connection is closed two seconds before its receiver would close it', async () => {
  const { usedConnections, sockets, send } = await answering(
    (socket) => void socket.write(`${ok}keep-alive: timeout=4\r\n\r\nok`),
  )
  await send()
  // Time itself is tested here.
  await sleep(500)
  const since = performance.now()
  await send()
  expect(usedConnections).toEqual([1, 1])
  await until(() => sockets[0]!.destroyed)
  // Counted from its last use.
  expect(performance.now() - since).toBeGreaterThan(1_900)
  await send()
  expect(usedConnections).toEqual([1, 1, 2])
})

test('the latest keep-alive timeout of the receiver counts', async () => {
  const seconds = [600, 3]
  const { usedConnections, sockets, send } = await answering(
    (socket) => void socket.write(`${ok}keep-alive: timeout=${seconds.shift()}\r\n\r\nok`),
  )
  await send()
  await send()
  expect(usedConnections).toEqual([1, 1])
  await until(() => sockets[0]!.destroyed)
})

test('a response without a length is complete when the connection is reset', async () => {
  const { send } = await answering((socket) => {
    socket.write('HTTP/1.1 200 OK\r\n\r\nok', () => setTimeout(() => resetBelow(socket), 20))
  })
  expect(await send()).toMatchObject({ status: 'succeeded', response: { status: 200, body: 'ok', complete: true } })
})

test('a receiver that answers before it has read a large request gets the next on a new connection', async () => {
  const body = Buffer.alloc(8_000_000, 'x')
  const { usedConnections, sockets, send } = await answering((socket) => {
    socket.pause()
    socket.write(`${ok}keep-alive: timeout=600\r\n\r\nok`)
  })
  expect(await send(body)).toMatchObject({ status: 'succeeded' })
  expect(await send(body)).toMatchObject({ status: 'succeeded' })
  expect(usedConnections).toEqual([1, 2])
  // The unread rest is not kept until the receiver reads again.
  for (const socket of sockets) socket.resume()
  await until(() => sockets.every(({ destroyed }) => destroyed))
})
