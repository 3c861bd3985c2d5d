import { eventTypes } from '../domain/event-types.ts'
import { type Basis, chosen, specified } from './basis.ts'

type Json = { [key: string]: unknown }

const header = (name: string, description: string, basis: Basis, schema: Json = { type: 'string' }): Json => ({
  name,
  in: 'header',
  required: basis['x-basis'] === 'specified',
  description,
  schema,
  ...basis,
})

/** The other direction: what we send to a webhook's URL. */
export const deliveryWebhooks = (serviceName: string): Json => ({
  delivery: {
    post: {
      summary: 'A delivery',
      description:
        'Sent to the URL of every webhook that is subscribed to the event. Accept it only if the signature is right, and answer 2xx within the deadline; anything else is tried again.',
      security: [],
      ...specified,
      parameters: [
        header(`X-${serviceName}-Event`, 'The event type.', specified, { type: 'string', enum: [...eventTypes] }),
        header(
          `X-${serviceName}-Signature`,
          '`sha256=` and the lower-case hexadecimal HMAC-SHA256 of the exact body, keyed with the text of the secret.',
          specified,
          { type: 'string', pattern: '^sha256=[0-9a-f]{64}$' },
        ),
        header('webhook-id', 'The id of the event: the same on every attempt.', chosen(16)),
        header('webhook-timestamp', 'When this attempt began, in seconds since 1970.', chosen(16)),
        header('webhook-signature', '`v1,` and a signature of id, time and body (Standard Webhooks).', chosen(16)),
      ],
      requestBody: {
        required: true,
        ...specified,
        content: { 'application/json': { schema: eventSchema } },
      },
      responses: {
        '2XX': { description: 'The event has arrived.', ...chosen(19) },
        '410': { description: 'It never will: this delivery is not tried again.', ...chosen(20) },
        default: { description: 'It has not, and is tried again. `Retry-After` is honoured.', ...chosen(20) },
      },
    },
  },
})

const eventSchema = {
  type: 'object',
  properties: {
    id: { type: 'string', description: 'The event.', ...chosen(15) },
    type: { type: 'string', enum: [...eventTypes], description: 'What happened.', ...chosen(15) },
    timestamp: { type: 'string', format: 'date-time', description: 'When it was published.', ...chosen(15) },
    data: { type: 'object', description: 'What there is to tell about it.', ...chosen(15) },
  },
  required: ['id', 'type', 'timestamp', 'data'],
}
