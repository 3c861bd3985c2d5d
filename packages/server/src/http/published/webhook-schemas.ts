import Type from 'typebox'
import { eventTypes } from '../../domain/event-types.ts'
import { chosen, mark, specified } from '../basis.ts'
import { createdAt, id } from '../schemas.ts'

const url = () =>
  mark(
    specified,
    Type.String({
      minLength: 1,
      maxLength: 2048,
      format: 'webhook-url',
      description: 'Where deliveries are sent. https:// only.',
    }),
  )
const subscribedTypes = () =>
  mark(
    specified,
    // The type is said besides the values: without it uniqueItems compares every pair, and a long array takes seconds.
    Type.Array(Type.Enum([...eventTypes], { type: 'string' }), {
      minItems: 1,
      maxItems: eventTypes.length,
      uniqueItems: true,
      description: 'The event types to deliver.',
    }),
  )

const shown = () => ({
  id: mark(chosen(13), id('wh', 'The <webhook_id> of other paths.')),
  url: url(),
  event_types: subscribedTypes(),
  created_at: mark(chosen(13), createdAt()),
})

export const newWebhook = Type.Object(
  { url: url(), event_types: subscribedTypes() },
  { $id: 'NewWebhook', additionalProperties: false },
)

export const createdWebhook = Type.Object(
  {
    ...shown(),
    secret: mark(
      specified,
      Type.String({
        pattern: '^whsec_[A-Za-z0-9+/]{43}=$',
        description: 'Signs deliveries: the key of the HMAC is this text, exactly as shown. Shown once.',
      }),
    ),
  },
  { $id: 'CreatedWebhook', additionalProperties: false },
)

export const webhookList = Type.Array(Type.Object(shown(), { $id: 'Webhook', additionalProperties: false }))
