import { expect, onTestFinished, test } from 'vitest'
import { deliveryTest, until } from './support/delivery-test.ts'
import { startReceiver } from './support/receiver.ts'

test('an event arrives at its webhook, and the attempt is on record', async () => {
  const receiver = await startReceiver()
  onTestFinished(() => receiver.close())
  const world = await deliveryTest()
  const webhook = await world.addWebhook(receiver.url)
  await world.startDispatcher()
  const eventId = await world.publishOne()
  await until(() => receiver.received.length > 0)
  expect(JSON.parse(receiver.received[0]!.body.toString())).toMatchObject({ id: eventId, type: 'database.created' })
  const [attempt] = await until(async () => {
    const rows = await world.attempts()
    return rows.length > 0 && rows
  })
  expect(attempt).toMatchObject({
    webhook_id: webhook.id,
    status: 'succeeded',
    response_status: 200,
    response_body: 'ok',
    address: '127.0.0.1',
  })
})
