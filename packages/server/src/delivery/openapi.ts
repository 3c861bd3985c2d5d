import { type Basis, type Choice, choice, chosen, type Json, specified } from '../http/basis.ts'
import { exampleId, exampleTime } from '../http/schemas.ts'
import { type IdPrefix, idPattern } from '../lib/ids.ts'
import { parseExactly } from '../lib/json.ts'
import { mapSchemas } from './event-declarations.ts'
import { type CustomEventType, type EventData, type EventType, eventTypes, firesWhen, sampleData } from './events.ts'
import { isOptionalType } from './optional-types.ts'

/** What we send to the URL of a webhook, by event type: the six, and those that are declared. */
export const deliveryWebhooks = (
  serviceName: string,
  custom: readonly CustomEventType[],
): Record<string, { post: Json }> => {
  const described = [...eventTypes.map(publishedType), ...custom.map(declaredType)]
  return Object.fromEntries(described.map((type) => [type.name, { post: delivery(serviceName, type) }]))
}

type Described = { name: string; firesWhen: string; basis: Basis; data: Json; example: unknown }

const publishedType = (name: EventType): Described => ({
  name,
  firesWhen: firesWhen[name],
  basis: specified,
  data: {
    type: 'object',
    description: 'What there is to tell about it. Fields may be added.',
    properties: fields[name],
    'x-chosen': [
      testMark,
      choice(41, 'An event that the operator reports from another platform has whatever was reported.'),
    ],
  },
  example: sampleData(name),
})

const declaredType = ({ name, description, example }: CustomEventType): Described => ({
  name,
  firesWhen: /[.!?]$/.test(description) ? description : `${description}.`,
  basis: declaredBasis(name),
  data: {
    $ref: `#/components/schemas/${dataComponent(name)}`,
    description: 'What there is to tell about it.',
    ...declaredBasis(name),
    'x-chosen': [testMark],
  },
  example: parseExactly(example),
})

const declaredBasis = (name: string): Basis => chosen(isOptionalType(name) ? 176 : 93)

const sending: Choice[] = [
  choice(
    20,
    'Any other answer than 2xx or 410 is tried again, nine times unless the operator has set another schedule.',
  ),
  choice(
    21,
    'The receiver has 5 seconds to let us connect and 15 for everything, its body included, unless the operator has set others.',
  ),
  choice(23, 'First attempts to one webhook start in the order of the events.'),
  choice(28, 'Loopback, private and other special addresses are not called, unless the operator opens a network.'),
  choice(
    43,
    'Between 1 and 32 at a time, or what the operator has set, as fast as the receiver answers. After one that took long to fail, the next waits up to a tenth of that time.',
  ),
  choice(46, 'The name is looked up for every new connection, and the address checked on the socket that is used.'),
]

const testMark = choice(37, 'A test event also has `"test": true`.')

const delivery = (serviceName: string, { name, firesWhen, basis, data, example }: Described): Json => ({
  operationId: `deliver${inPascalCase(name)}`,
  tags: ['Events'],
  summary: name,
  description: `${firesWhen} Sent to the URL of every webhook that is subscribed to it. Accept it only if the signature is right, and answer 2xx.`,
  security: [],
  ...basis,
  'x-chosen': sending,
  parameters: headers(serviceName, name),
  requestBody: {
    required: true,
    ...chosen(15),
    content: {
      'application/json': {
        schema: eventSchema(name, data),
        example: { id: exampleId('evt'), type: name, timestamp: exampleTime, data: example },
      },
    },
  },
  responses: {
    '2XX': { description: 'The event has arrived.', ...chosen(19) },
    '3XX': { description: 'It has not: redirects are not followed.', ...chosen(19) },
    '410': { description: 'It never will: this delivery is not tried again.', ...chosen(20) },
    default: {
      description: 'It has not, and is tried again. `Retry-After` is honoured.',
      ...chosen(20),
      'x-chosen': [choice(36, 'So is an answer that is larger than 1 MiB unless the operator has set another limit.')],
    },
  },
})

const header = (name: string, description: string, basis: Basis & Json, schema: Json = { type: 'string' }): Json => ({
  name,
  in: 'header',
  required: basis['x-basis'] === 'specified',
  description,
  schema,
  ...basis,
})

const brand = choice(17, 'The word in the middle is the operator’s `KEYHOOK_SERVICE_NAME`.')
const key = choice(14, 'The key is the text of the secret exactly as shown, `whsec_` included.')

const sequenceNumber = { type: 'integer', minimum: 1 }

const headers = (serviceName: string, type: string): Json[] => [
  header(
    `X-${serviceName}-Event`,
    'The event type.',
    { ...specified, 'x-chosen': [brand] },
    { type: 'string', const: type },
  ),
  header(
    `X-${serviceName}-Signature`,
    '`sha256=` and the lower-case hexadecimal HMAC-SHA256 of the exact body, keyed with the secret of the webhook.',
    { ...specified, 'x-chosen': [brand, key] },
    { type: 'string', pattern: '^sha256=[0-9a-f]{64}$' },
  ),
  header('webhook-id', 'The id of the event: the same on every attempt.', chosen(16)),
  header('webhook-timestamp', 'When this attempt began, in seconds since 1970.', chosen(16)),
  header('webhook-signature', '`v1,` and a signature of id, time and body (Standard Webhooks).', chosen(16)),
  header(
    `X-${serviceName}-Sequence`,
    'The number of the event in its organization: 1, 2, 3 without a gap. Not signed. Test events have none.',
    chosen(81),
    sequenceNumber,
  ),
  header(
    `X-${serviceName}-Previous-Sequence`,
    'The number of the event that was sent to this webhook before this one; absent if there is none, or it is no longer kept. Not signed.',
    chosen(81),
    sequenceNumber,
  ),
  header('User-Agent', 'Who is calling.', chosen(16)),
  header(
    'Accept-Encoding',
    'Always `identity`. A compressed answer counts like any other; its body is not kept.',
    chosen(36),
  ),
]

const eventSchema = (type: string, data: Json): Json => ({
  type: 'object',
  properties: {
    id: { type: 'string', description: 'The event: the same on every attempt.' },
    type: { type: 'string', const: type, description: 'What happened.' },
    timestamp: { type: 'string', format: 'date-time', description: 'When it was published.' },
    data,
  },
  required: ['id', 'type', 'timestamp', 'data'],
})

const text = (description: string): Json => ({ type: 'string', description })
const whole = (description: string): Json => ({ type: 'integer', minimum: 0, description })
const id = (prefix: IdPrefix, description: string): Json => ({ ...text(description), pattern: idPattern(prefix) })

const databaseId = id('db', 'The database.')
const backupId = id('bak', 'The backup.')
const reason = {
  ...text('Why, in words for people.'),
  'x-chosen': [choice(68, 'Worded by us: nothing of the inside shows.')],
}

type Fields = { [T in EventType]: { [F in keyof EventData[T]]: Json } }

const fields: Fields = {
  'database.created': { database_id: databaseId, name: text('Its name.') },
  'database.failed': { database_id: databaseId, name: text('Its name.'), reason },
  'backup.completed': { backup_id: backupId, database_id: databaseId, size_bytes: whole('The size of the archive.') },
  'backup.failed': { backup_id: backupId, database_id: databaseId, reason },
  'restore.completed': {
    restore_id: id('rst', 'The restore.'),
    backup_id: backupId,
    database_id: id('db', 'The new database.'),
  },
  'invoice.paid': {
    invoice_id: id('inv', 'The invoice.'),
    month: text('The month it is for, such as `2026-01`.'),
    currency: text('ISO 4217.'),
    total_minor: whole('The sum, in minor units (cents).'),
    paid_at: { ...text('When it was marked paid.'), format: 'date-time' },
  },
}

/** `order.shipped` becomes `OrderShipped`. */
const inPascalCase = (name: string): string =>
  name.replace(/(?:^|\.)(\w)/g, (_, letter: string) => letter.toUpperCase())

const dataComponent = (name: string): string => `${inPascalCase(name)}Data`

/** The schemas that the operator wrote, as components. References within them have to start at the document. */
export const dataSchemas = (custom: readonly CustomEventType[]): Record<string, Json> =>
  Object.fromEntries(
    custom.map(({ name, schema }) => {
      const { $schema, ...own } = JSON.parse(schema) as Json
      const component = dataComponent(name)
      const moved = mapSchemas(own, (one) =>
        typeof one.$ref === 'string' ? { ...one, $ref: `#/components/schemas/${component}${one.$ref.slice(1)}` } : one,
      )
      return [component, moved as Json]
    }),
  )
