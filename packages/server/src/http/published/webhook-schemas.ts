import Type from 'typebox'
import { eventTypes } from '../../domain/event-types.ts'
import { type Choice, choice, chosen, mark, specified, withChoices } from '../basis.ts'
import { acceptedEventType, shownEventType } from '../event-type-schemas.ts'
import { createdAt, id } from '../schemas.ts'

export const url = (...choices: Choice[]) =>
  withChoices(
    Type.String({
      minLength: 1,
      maxLength: 2048,
      format: 'webhook-url',
      description: 'Where deliveries are sent. https:// only.',
      examples: ['https://example.com/hooks'],
    }),
    ...choices,
  )

export const urlRules = [
  choice(27, 'At most 2,048 characters.'),
  choice(74, 'Absolute, without user name, password or fragment; kept as it was sent; need not be unique.'),
  choice(28, 'Its address is checked whenever it is called, not here.'),
]

export const subscribedTypes = (one: ReturnType<typeof shownEventType>, ...choices: Choice[]) =>
  withChoices(
    // Without the type, uniqueItems compares every pair, and a long array takes seconds.
    Type.Array(one, {
      minItems: 1,
      maxItems: eventTypes.length,
      uniqueItems: true,
      description: 'The event types to deliver.',
    }),
    ...choices,
  )

const shown = () => ({
  id: id('wh', 'The <webhook_id> of other paths.'),
  url: url(),
  event_types: subscribedTypes(shownEventType()),
  created_at: createdAt(),
})

export const newWebhook = Type.Object(
  {
    url: url(...urlRules),
    event_types: subscribedTypes(
      acceptedEventType(),
      choice(8, 'At least one, and none of them twice.'),
      choice(93, 'One of the six, or a type that the operator has declared.'),
    ),
  },
  { $id: 'NewWebhook', additionalProperties: false, ...specified },
)

export const createdWebhook = Type.Object(
  {
    ...shown(),
    secret: mark(
      specified,
      Type.String({
        pattern: '^whsec_[A-Za-z0-9+/]{43}=$',
        description: 'Signs deliveries. Shown once.',
      }),
      choice(14, '`whsec_` and the base64 of 32 random bytes; the key of the HMAC is this text, exactly as shown.'),
    ),
  },
  { $id: 'CreatedWebhook', additionalProperties: false, ...chosen(13) },
)

export const webhookList = Type.Array(
  Type.Object(shown(), { $id: 'Webhook', additionalProperties: false, ...chosen(13) }),
)
