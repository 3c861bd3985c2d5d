import { gzipSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import { receiverFor, startHostile } from '../support/receiver.ts'
import { attempt } from '../support/sender.ts'

test('a body over the cap is truncated in the record, and the attempt still succeeds', async () => {
  const receiver = await receiverFor(() => ({ body: 'y'.repeat(40_000) }))
  const exchange = await attempt(receiver.url)
  expect(exchange.status).toBe('succeeded')
  expect(exchange.response).toMatchObject({ complete: false, body: 'y'.repeat(16_384) })
})

test.each(['語', '😀', 'é'])('a body over the cap is truncated between characters: %s', async (character) => {
  const body = `y${character.repeat(20_000)}`
  const receiver = await receiverFor(() => ({ body }))
  const { response } = await attempt(receiver.url)
  const kept = (16_384 - 1) / Buffer.byteLength(character)
  expect(response).toEqual({ ...response, complete: false, body: `y${character.repeat(Math.floor(kept))}` })
})

test('half a character at the end of a complete response is recorded as U+FFFD', async () => {
  const receiver = await startHostile((socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\na')
    socket.write(Buffer.from('語').subarray(0, 2))
  })
  onTestFinished(() => receiver.close())
  expect((await attempt(receiver.url)).response).toMatchObject({ complete: true, body: 'a\ufffd' })
})

async function attemptEncoded(status: string, encoding: string, body: Buffer) {
  const receiver = await startHostile((socket) => {
    socket.write(`HTTP/1.1 ${status}\r\ncontent-encoding: ${encoding}\r\ncontent-length: ${body.length}\r\n\r\n`)
    socket.write(body)
  })
  onTestFinished(() => receiver.close())
  return attempt(receiver.url)
}

// A proxy in front of the receiver may compress without being asked. 50 MB of zeros: a sender that decompressed them would show it.
test.each([
  ['gzip', gzipSync('ok')],
  ['gzip', gzipSync(Buffer.alloc(50_000_000))],
  ['br, gzip', gzipSync('ok')],
])('a 2xx encoded as %s succeeds, and its body is left out of the record', async (encoding, body) => {
  const exchange = await attemptEncoded('200 OK', encoding, body)
  expect(exchange).toMatchObject({ status: 'succeeded', error: null })
  expect(exchange.response).toMatchObject({ status: 200, body: '', complete: false })
  expect(exchange.response?.headers).toContain(`content-encoding: ${encoding}`)
})

test('an encoded response without 2xx fails by its status', async () => {
  const exchange = await attemptEncoded('500 x', 'gzip', gzipSync('no'))
  expect(exchange).toMatchObject({ status: 'failed', error: { code: 'status_not_successful' }, response: { body: '' } })
})

test('an encoded response without a body is recorded as complete', async () => {
  const { response } = await attemptEncoded('200 OK', 'gzip', Buffer.alloc(0))
  expect(response).toMatchObject({ body: '', complete: true })
})

// RFC 9110, 8.4.1 and 5.5: case-insensitive, and trailing white space is not part of the value.
test.each(['identity', 'Identity', 'identity \t', ''])('the body of content-encoding %j is kept', async (encoding) => {
  const { response } = await attemptEncoded('200 OK', encoding, Buffer.from('ok'))
  expect(response).toMatchObject({ body: 'ok', complete: true })
})
