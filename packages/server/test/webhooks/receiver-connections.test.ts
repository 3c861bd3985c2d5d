import { expect, test } from 'vitest'
import { receiverFor } from './support/receiver.ts'
import { attempt, sendingTo } from './support/sender.ts'

/*
 * What an honest receiver sees of the sender: requests to the very URL on record, over a connection that is kept.
 */

// Seen to fail where the path is put together from its parts: the URL on record has the question mark.
test.each(['/?', '/a?', '/a/../b?x=1', '/a%20b?'])('%s is called as it is recorded', async (path) => {
  const receiver = await receiverFor()
  const url = new URL(path, receiver.url)
  await attempt(url.href)
  expect(new URL(receiver.received[0]!.path, url).href).toBe(url.href)
})

test('a connection is kept for the next request to the same receiver', async () => {
  const receiver = await receiverFor()
  const send = sendingTo(receiver.url)
  const first = await send()
  const second = await send()
  expect(first.connectUs).not.toBeNull()
  expect(second).toMatchObject({ status: 'succeeded', connectUs: null, address: '127.0.0.1' })
  expect(receiver.connections).toBe(1)
})
