import { expect, test } from 'vitest'
import { until } from '../../../kit/until.ts'
import { receiverFor } from '../../support/receiver.ts'
import { sendersForTest, sendWith } from '../../support/sender.ts'

async function receiversOf(count: number, idleMax: number) {
  const senders = sendersForTest({ idleMax })
  const made = []
  for (let n = 0; n < count; n++) {
    const receiver = await receiverFor()
    const sender = senders.open(receiver.url)
    const send = async () => expect(await sendWith(sender)).toMatchObject({ status: 'succeeded' })
    made.push({ send, receiver })
  }
  return made
}

test('with too many idle connections, the least recently used one is closed', async () => {
  const [a, b, c] = await receiversOf(3, 2)
  await a!.send()
  await b!.send()
  await a!.send()
  await c!.send()
  await until(() => b!.receiver.open === 0)
  expect([a!.receiver.open, c!.receiver.open]).toEqual([1, 1])
  await b!.send()
  await until(() => a!.receiver.open === 0)
  expect([b!.receiver.open, c!.receiver.open]).toEqual([1, 1])
  expect([a!, b!, c!].map(({ receiver }) => receiver.connections)).toEqual([1, 2, 1])
})

test('connections in flight do not count as idle and are not closed', async () => {
  const [a, b] = await receiversOf(2, 1)
  await Promise.all([a!.send(), a!.send(), a!.send(), b!.send()])
  await until(() => a!.receiver.open + b!.receiver.open === 1)
  expect([a!.receiver.received.length, b!.receiver.received.length]).toEqual([3, 1])
})
