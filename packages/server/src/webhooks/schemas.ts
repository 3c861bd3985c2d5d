import Type from 'typebox'
import { acceptedEventType, shownEventType } from '../delivery/event-type-schemas.ts'
import { eventTypes } from '../delivery/events.ts'
import { sendErrorCodes } from '../delivery/send-errors.ts'
import { type Choice, choice, chosen, mark, specified, withChoices } from '../http/basis.ts'
import { createdAt, id, label, nullable, timestamp } from '../http/schemas.ts'
import { attemptIdOf } from '../lib/ids.ts'
import { isoTime } from '../lib/time.ts'
import { rateLimitMax, rateLimitMin } from './rules.ts'
import { attemptsCounted, type WebhookRecordRow, waitingCounted } from './sql.ts'

const exampleSecret = 'whsec_ZXhhbXBsZS1zZWNyZXQtZXhhbXBsZS1zZWNyZXQtMDE='

const url = (...choices: Choice[]) =>
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

const urlRules = [
  choice(27, 'At most 2,048 characters.'),
  choice(74, 'Absolute, without user name, password or fragment; kept as it was sent; need not be unique.'),
  choice(28, 'Its address is checked whenever it is called, not here.'),
]

const subscribedTypes = (one: ReturnType<typeof shownEventType>, ...choices: Choice[]) =>
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
        examples: [exampleSecret],
      }),
      choice(14, '`whsec_` and the base64 of 32 random bytes; the key of the HMAC is this text, exactly as shown.'),
    ),
  },
  { $id: 'CreatedWebhook', additionalProperties: false, ...chosen(13) },
)

export const webhookList = Type.Array(
  Type.Object(shown(), { $id: 'Webhook', additionalProperties: false, ...chosen(13) }),
)

const here = chosen(85)
export const pauseBasis = chosen(87)
const limitBasis = chosen(88)
const failingBasis = chosen(179)
const statuses = ['active', 'failing', 'suspended', 'paused'] as const
export const rotationBasis = chosen(89)

const description = () => nullable(label('What the webhook is for.', 'Orders to the warehouse'))

const rateLimit = () =>
  nullable(
    Type.Number({
      minimum: rateLimitMin,
      maximum: rateLimitMax,
      description: 'Deliveries per second at most; null: no limit.',
      examples: [50],
    }),
  )

const secretRotation = Type.Object(
  {
    started_at: timestamp('When the new secret was made.'),
    ends_at: timestamp('Until then both secrets are valid; then the old one is erased.'),
    switched: Type.Boolean({ description: 'Whether `X-<Service>-Signature` is made with the new secret already.' }),
  },
  { additionalProperties: false, description: 'The overlap of two secrets; null when there is one.' },
)

export const newSecret = Type.Object(
  {
    secret: Type.Optional(
      withChoices(
        Type.String({
          pattern: '^whsec_[A-Za-z0-9+/]{43}=$',
          description: 'The new secret. Shown once.',
          examples: [exampleSecret],
        }),
        choice(96, 'Absent if the answer is a repetition (`Idempotency-Replayed`).'),
      ),
    ),
    secret_rotation: nullable(secretRotation),
  },
  { $id: 'RotatedSecret', additionalProperties: false, ...rotationBasis },
)

const queueBasis = chosen(187)
const count = (text: string) => Type.Integer({ minimum: 0, description: text })

const lastFailure = Type.Object(
  {
    delivery_id: id('dlv', 'The attempt.'),
    at: timestamp('When it started.'),
    error_code: nullable(Type.Enum([...sendErrorCodes], { description: 'What went wrong.' })),
    response_status: nullable(Type.Integer({ description: 'The HTTP status of the answer.' })),
  },
  { additionalProperties: false, description: 'The newest attempt in the history that failed; null if there is none.' },
)

const health = Type.Object(
  {
    since: timestamp(
      `What is counted: attempts from here on. 24 hours ago, or the start of the newest ${attemptsCounted.toLocaleString('en')} attempts if that is later.`,
    ),
    succeeded: count('Attempts that succeeded.'),
    failed: count('Attempts that failed. Interrupted ones count as neither.'),
    success_share: nullable(
      Type.Number({ minimum: 0, maximum: 1, description: 'Succeeded of both; null without attempts.' }),
    ),
    last_failure: nullable(lastFailure),
    oldest_waiting_at: nullable(
      timestamp('When the oldest event was published whose delivery is not finished; null if none is waiting.'),
    ),
    waiting: mark(
      queueBasis,
      count(`Deliveries that are not finished. ${waitingCounted.toLocaleString('en')} stands for that many or more.`),
    ),
    next_attempt_at: mark(
      queueBasis,
      nullable(
        timestamp(
          'When the next attempt is due, or since when: it may have to wait for others. During a pause not before its end, and while it is suspended the hourly one. Null if none is to come.',
        ),
      ),
    ),
  },
  { additionalProperties: false, description: 'How deliveries went lately.' },
)

export const webhookRecord = Type.Object(
  {
    id: id('wh', 'The webhook.'),
    url: url(),
    event_types: subscribedTypes(shownEventType()),
    description: description(),
    status: mark(
      pauseBasis,
      Type.Enum([...statuses], { description: 'Whether deliveries are sent, and arrive. A pause comes first.' }),
      choice(179, '`failing` after three failed attempts in a row, `suspended` when that lasts.'),
    ),
    paused_until: mark(pauseBasis, nullable(timestamp('When the pause ends by itself.'))),
    failing_since: mark(
      failingBasis,
      nullable(timestamp('When the third attempt in a row failed; null after a success.')),
      choice(180, 'Owners and other webhooks are told once of each change.'),
    ),
    suspended_until: mark(
      failingBasis,
      nullable(timestamp('When a suspension without any success ends; null unless it is suspended.')),
    ),
    rate_limit: mark(limitBasis, rateLimit()),
    secret_rotation: mark(rotationBasis, nullable(secretRotation)),
    created_by: id('usr', 'Who created it.'),
    created_at: createdAt(),
    secret_created_at: mark(
      queueBasis,
      nullable(timestamp('When the newest secret was made; null if that was long ago and is not known.')),
    ),
    health: mark(chosen(86), health),
  },
  { $id: 'WebhookDetails', additionalProperties: false, ...here },
)

export const webhookUpdate = Type.Object(
  {
    description: Type.Optional(description()),
    event_types: Type.Optional(subscribedTypes(acceptedEventType())),
    url: Type.Optional(url(...urlRules)),
    rate_limit: Type.Optional(mark(limitBasis, rateLimit())),
  },
  { $id: 'WebhookUpdate', additionalProperties: false, ...here },
)

export const secretRotationOf = (row: Pick<WebhookRecordRow, 'rotated_at' | 'overlap_until' | 'switched'>) =>
  row.overlap_until && {
    started_at: isoTime(row.rotated_at!),
    ends_at: isoTime(row.overlap_until),
    switched: row.switched,
  }

function statusOf(row: WebhookRecordRow): (typeof statuses)[number] {
  if (row.paused_until !== null) return 'paused'
  if (row.suspended_until !== null) return 'suspended'
  return row.failing_since === null ? 'active' : 'failing'
}

export const webhookRecordOf = (row: WebhookRecordRow) => {
  const ended = row.succeeded + row.failed
  return {
    id: row.id,
    url: row.url,
    event_types: row.event_types,
    description: row.description,
    status: statusOf(row),
    paused_until: row.paused_until && isoTime(row.paused_until),
    failing_since: row.failing_since && isoTime(row.failing_since),
    suspended_until: row.suspended_until && isoTime(row.suspended_until),
    rate_limit: row.rate_limit,
    secret_rotation: secretRotationOf(row),
    created_by: row.created_by,
    created_at: isoTime(row.created_at),
    secret_created_at: row.secret_created_at && isoTime(row.secret_created_at),
    health: {
      since: isoTime(row.since),
      succeeded: row.succeeded,
      failed: row.failed,
      success_share: ended === 0 ? null : row.succeeded / ended,
      last_failure: row.failure_id && {
        delivery_id: attemptIdOf(row.failure_id),
        at: isoTime(row.failure_at!),
        error_code: row.failure_code,
        response_status: row.failure_status,
      },
      oldest_waiting_at: row.oldest_waiting_at && isoTime(row.oldest_waiting_at),
      waiting: row.waiting,
      next_attempt_at: row.next_attempt_at && isoTime(row.next_attempt_at),
    },
  }
}
