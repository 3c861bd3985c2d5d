import { expect, test } from 'vitest'
import { receiverFor } from '../../support/receiver.ts'
import { attempt } from '../../support/sender.ts'

// Fails if the path is put together from pathname and search, which drop a final question mark.
test.each(['/?', '/a?', '/a/../b?x=1', '/a%20b?'])('%s is requested exactly as it is recorded', async (path) => {
  const receiver = await receiverFor()
  const url = new URL(path, receiver.url)
  await attempt(url.href)
  expect(new URL(receiver.received[0]!.path, url).href).toBe(url.href)
})
