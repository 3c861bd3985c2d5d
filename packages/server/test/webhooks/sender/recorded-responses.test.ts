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
