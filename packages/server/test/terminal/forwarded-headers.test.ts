import { expect, test } from 'vitest'
import { deliveryHeaders } from '../../../cli/src/commands/forwarder.ts'
import { createRequestHeaders, createSigner } from '../../src/delivery/sender/senders.ts'
import { mintWebhookSecret } from '../../src/webhooks/rules.ts'

test.each([null, 6])('keyhook listen sends the headers of a delivery, previous sequence %s', (previousSequence) => {
  const [secret, serviceName, now] = [mintWebhookSecret(), 'Acme', new Date()]
  const event = { id: 'evt_1', type: 'invoice.paid', body: '{"name":"Grüße 👋"}', sequence: 7 } as const
  const sent = createRequestHeaders({ serviceName, standardWebhooks: true })(createSigner(secret), {
    eventId: event.id,
    eventType: event.type,
    body: Buffer.from(event.body),
    startedAtMs: now.getTime(),
    sequence: event.sequence,
    previousSequence,
  })
  expect(deliveryHeaders({ event, secret, serviceName, previousSequence, now }).flat()).toEqual(sent)
})
