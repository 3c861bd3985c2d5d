import { setTimeout as sleep } from 'node:timers/promises'
import type { TLSSocket } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { until } from './support/delivery-test.ts'
import { resetBelow, startHostile } from './support/receiver.ts'
import { sendingTo } from './support/sender.ts'

/*
 * Which connections carry another request after they have carried one. A wrong guess costs a delivery: its request goes where
 * nobody reads it, or its answer is another's.
 */

const ok = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n'

/** Answers every request on every connection, and says on which each came. */
async function answering(answer: (socket: TLSSocket, nth: number) => void) {
  const came: number[] = []
  const open: TLSSocket[] = []
  const receiver = await startHostile((socket, first) => {
    const connection = open.push(socket)
    const take = (request: Buffer) => {
      if (!request.toString('latin1').startsWith('POST ')) return
      came.push(connection)
      answer(socket, came.length)
    }
    take(first)
    socket.on('data', take)
  })
  onTestFinished(() => receiver.close())
  return { came, open, send: sendingTo(receiver.url) }
}

const spoiling: [string, (socket: TLSSocket) => void][] = [
  ['says that it closes', (socket) => void socket.write(`${ok}connection: close\r\n\r\nok`)],
  ['speaks HTTP/1.0', (socket) => void socket.write('HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok')],
  [
    'keeps connections for no longer than it takes to use them',
    (socket) => void socket.write(`${ok}keep-alive: timeout=2\r\n\r\nok`),
  ],
  ['says more than was asked', (socket) => void socket.write(`${ok}\r\nok${ok}\r\nno`)],
  [
    'says more than was asked, a moment later',
    (socket) => {
      socket.write(`${ok}\r\nok`)
      setTimeout(() => socket.write(`${ok}\r\nno`), 20)
    },
  ],
  ['has a body where there is none', (socket) => void socket.write('HTTP/1.1 204 x\r\ncontent-length: 2\r\n\r\n')],
  ['closes although it said nothing of it', (socket) => void socket.end(`${ok}\r\nok`)],
  [
    'resets although it said nothing of it',
    (socket) => {
      socket.write(`${ok}\r\nok`, () => setTimeout(() => resetBelow(socket), 10))
    },
  ],
]

test.each(spoiling)('a receiver that %s gets the next request on another connection', async (_what, answer) => {
  const { came, send } = await answering(answer)
  for (let i = 0; i < 3; i++) {
    expect(await send()).toMatchObject({ status: 'succeeded', error: null })
    await sleep(50)
  }
  expect(came).toEqual([1, 2, 3])
})

// The second lies there when the first is read. Seen to fail where the next request leaves at once: its answer is the second.
test('what has come already is read before the next request leaves', async () => {
  const recordBytes = 512
  const rest = '\r\n\r\nok'
  const first = `${ok}x: `.padEnd(recordBytes - rest.length, 'x') + rest
  const { came, send } = await answering((socket) => {
    socket.setMaxSendFragment(recordBytes)
    socket.write(`${first}${ok}\r\nno`)
  })
  for (let i = 0; i < 3; i++) expect((await send()).response).toMatchObject({ body: 'ok' })
  expect(came).toEqual([1, 2, 3])
})

const keeping: [string, string][] = [
  ['says nothing of it', `${ok}\r\nok`],
  ['of HTTP/1.0 says that it keeps them', 'HTTP/1.0 200 OK\r\ncontent-length: 2\r\nconnection: keep-alive\r\n\r\nok'],
  ['keeps them for long', `${ok}keep-alive: max=9, timeout=60\r\n\r\nok`],
  ['answers in chunks', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n'],
  ['ends its answer with a line too many', `${ok}\r\nok\r\n`],
  ['refuses', 'HTTP/1.1 503 x\r\ncontent-length: 0\r\n\r\n'],
]

test.each(keeping)('a receiver that %s gets the next request on the same connection', async (_what, answer) => {
  const { came, send } = await answering((socket) => void socket.write(answer))
  for (let i = 0; i < 3; i++) expect((await send()).response).not.toBeNull()
  expect(came).toEqual([1, 1, 1])
})

test('a connection is closed before its receiver would close it', async () => {
  const { came, open, send } = await answering((socket) => void socket.write(`${ok}keep-alive: timeout=4\r\n\r\nok`))
  await send()
  await sleep(500)
  const since = performance.now()
  await send()
  expect(came).toEqual([1, 1])
  await until(() => open[0]!.destroyed, 'the connection to be closed')
  // Two seconds after it was used last, not after it was first kept.
  expect(performance.now() - since).toBeGreaterThan(1_900)
  await send()
  expect(came).toEqual([1, 1, 2])
})

// Seen to fail while only the first hint counted: it stayed open for ten minutes.
test('a connection is closed by what its receiver said last', async () => {
  const seconds = [600, 3]
  const { came, open, send } = await answering(
    (socket) => void socket.write(`${ok}keep-alive: timeout=${seconds.shift()}\r\n\r\nok`),
  )
  await send()
  await send()
  expect(came).toEqual([1, 1])
  await until(() => open[0]!.destroyed, 'the connection to be closed')
})

test('an answer that ends with its connection has ended, also where the receiver had not read everything', async () => {
  const { send } = await answering((socket) => {
    socket.write('HTTP/1.1 200 OK\r\n\r\nok', () => setTimeout(() => resetBelow(socket), 20))
  })
  expect(await send()).toMatchObject({ status: 'succeeded', response: { status: 200, body: 'ok', complete: true } })
})

test('a receiver that answers before it has read a large request gets the next on another connection', async () => {
  const body = Buffer.alloc(8_000_000, 'x')
  const { came, open, send } = await answering((socket) => {
    socket.pause()
    socket.write(`${ok}keep-alive: timeout=600\r\n\r\nok`)
  })
  expect(await send(body)).toMatchObject({ status: 'succeeded' })
  expect(await send(body)).toMatchObject({ status: 'succeeded' })
  expect(came).toEqual([1, 2])
  // Nor is the rest of it kept for the time when it reads on.
  for (const socket of open) socket.resume()
  await until(() => open.every(({ destroyed }) => destroyed), 'the connections to be closed')
})
