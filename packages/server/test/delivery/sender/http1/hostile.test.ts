import type { AddressInfo } from 'node:net'
import { createServer as createTlsServer, type TLSSocket } from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { certificate, resetBelow, startHostile } from '../../support/receiver.ts'
import { attempt, limits } from '../../support/sender.ts'

const ok = 'HTTP/1.1 200 OK\r\n'
const trickle = (socket: TLSSocket, bytes: string) => {
  socket.write(bytes)
  const timer = setInterval(() => socket.write('x'), 50)
  socket.on('close', () => clearInterval(timer))
}
const flood = (socket: TLSSocket, start: string, repeated: string) => {
  const chunk = Buffer.from(repeated.repeat(65_536 / repeated.length))
  socket.write(start)
  const write = () => {
    while (!socket.destroyed && socket.write(chunk));
    socket.once('drain', write)
  }
  write()
}

const hostile: [string, string, (socket: TLSSocket) => void][] = [
  ['sends its headers slowly', 'timeout', (socket) => trickle(socket, `${ok}x: `)],
  ['sends its body slowly', 'timeout', (socket) => trickle(socket, `${ok}content-length: 100000\r\n\r\n`)],
  [
    'never ends its body',
    'timeout',
    (socket) => void socket.write(`${ok}transfer-encoding: chunked\r\n\r\n2\r\nok\r\n`),
  ],
  ['never answers', 'timeout', () => {}],
  ['sends a gigabyte', 'response_too_large', (socket) => flood(socket, `${ok}content-length: 1073741824\r\n\r\n`, 'x')],
  [
    'sends endless 1xx responses',
    'response_too_large',
    (socket) => flood(socket, '', 'HTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\n'),
  ],
  [
    'sends an endless chunk extension',
    'response_too_large',
    (socket) => flood(socket, `${ok}transfer-encoding: chunked\r\n\r\n1;`, 'x'),
  ],
  ['sends endless empty lines', 'response_too_large', (socket) => flood(socket, '', '\r\n')],
  ['speaks another protocol', 'response_malformed', (socket) => void socket.write('220 mail.example ESMTP ready\r\n')],
  [
    'sends a header with a control character, after its length',
    'response_malformed',
    (socket) => void socket.write(`${ok}content-length: 2\r\nx: a\x01b\r\n\r\nok`),
  ],
  [
    'sends a chunk without a size',
    'response_malformed',
    (socket) => void socket.write(`${ok}transfer-encoding: chunked\r\n\r\nzz\r\n`),
  ],
  ['answers with an invalid status', 'response_malformed', (socket) => void socket.write('HTTP/1.1 099 x\r\n\r\n')],
  [
    'sends a thousand headers',
    'response_headers_too_large',
    (socket) => void socket.write(`${ok}${'x-header: 0123456789012345\r\n'.repeat(1_000)}\r\n`),
  ],
  ['closes at once', 'connection_closed', (socket) => void socket.end()],
  [
    'closes in the middle of its body',
    'connection_closed',
    (socket) => void socket.end(`${ok}content-length: 10\r\n\r\nhalf`),
  ],
  // undici's client calls it malformed.
  [
    'closes in the middle of a chunk after `connection: close`',
    'connection_closed',
    (socket) => void socket.end(`${ok}connection: close\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhal`),
  ],
  ['resets', 'connection_reset', resetBelow],
  [
    'redirects to the metadata address',
    'redirect_not_followed',
    (socket) =>
      void socket.write('HTTP/1.1 307 x\r\nlocation: http://169.254.169.254/latest\r\ncontent-length: 0\r\n\r\n'),
  ],
  [
    'sends endless 1xx responses slowly',
    'timeout',
    (socket) => {
      const timer = setInterval(() => socket.write('HTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\n'), 20)
      socket.on('close', () => clearInterval(timer))
    },
  ],
  [
    'answers 304, which is no redirect',
    'status_not_successful',
    (socket) => void socket.write('HTTP/1.1 304 x\r\n\r\n'),
  ],
  [
    'answers 500',
    'status_not_successful',
    (socket) => void socket.write('HTTP/1.1 500 x\r\ncontent-length: 0\r\n\r\n'),
  ],
]

// Invariant 8, the one deadline. Fails if it covers only the headers: slow and endless bodies go on.
test.each(hostile)('a receiver that %s: %s, within the deadline', async (_what, code, behave) => {
  const receiver = await startHostile(behave)
  onTestFinished(() => receiver.close())
  const exchange = await attempt(receiver.url)
  expect(exchange.status).toBe('failed')
  expect(exchange.error?.code).toBe(code)
  expect(exchange.tookMs).toBeLessThan(limits.attemptMsMax + 10_000)
  expect(exchange.response?.body.length ?? 0).toBeLessThanOrEqual(limits.responseKeptBytesMax)
})

// RFC 9110, 15.2. undici's client closes the connection at 100.
test.each([100, 102, 103])('an unsolicited %i is skipped, and the final response counts', async (interim) => {
  const receiver = await startHostile((socket) => {
    socket.write(`HTTP/1.1 ${interim} x\r\n\r\n`)
    socket.write(`HTTP/1.1 ${interim} x\r\nlink: <x>\r\n\r\n${ok}content-length: 2\r\n\r\nok`)
  })
  onTestFinished(() => receiver.close())
  const exchange = await attempt(receiver.url)
  expect(exchange).toMatchObject({ status: 'succeeded', response: { status: 200, body: 'ok', complete: true } })
  expect(exchange.response?.headers).not.toContain('link')
})

test('an incomplete 410 response counts as gone', async () => {
  const receiver = await startHostile(
    (socket) => void socket.end('HTTP/1.1 410 Gone\r\ncontent-length: 10\r\n\r\nhalf'),
  )
  onTestFinished(() => receiver.close())
  expect(await attempt(receiver.url)).toMatchObject({ status: 'failed', gone: true })
})

test('the detail of a malformed response is a plain sentence', async () => {
  const receiver = await startHostile((socket) => void socket.write('HTTP/1.1 099 x\r\n\r\n'))
  onTestFinished(() => receiver.close())
  expect((await attempt(receiver.url)).error?.detail).toBe('The response is not HTTP/1.1.')
})

test('a TLS 1.2 receiver cannot renegotiate', async () => {
  let renegotiations = 0
  const tls = { ...certificate('receiver'), maxVersion: 'TLSv1.2' as const }
  const server = createTlsServer(tls, (socket) => {
    socket.on('error', () => {})
    const renegotiate = () => {
      socket.renegotiate({}, (error) => {
        if (error !== null) return socket.destroy()
        renegotiations += 1
        if (renegotiations < 10) renegotiate()
      })
    }
    socket.once('data', renegotiate)
  })
  onTestFinished(() => void server.close())
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  await attempt(`https://127.0.0.1:${(server.address() as AddressInfo).port}/`)
  expect(renegotiations).toBe(0)
})

test('a response before the whole request was read counts', async () => {
  const server = await startHostile((socket) => socket.end(`${ok}content-length: 2\r\n\r\nok`))
  onTestFinished(() => server.close())
  expect(await attempt(server.url)).toMatchObject({ status: 'succeeded', response: { status: 200, body: 'ok' } })
})
