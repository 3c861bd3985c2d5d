import type { CustomEventType } from '../../src/delivery/events.ts'

type Declaration = { name: string; description: string; schema: object; example: object }

/** Two event types of a shop, as an operator's file has them. */
export const orderShipped: Declaration = {
  name: 'order.shipped',
  description: 'A parcel has left the warehouse.',
  schema: {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    properties: {
      order_id: { type: 'string', minLength: 3 },
      total: { type: 'number', minimum: 0 },
      address: { $ref: '#/$defs/address' },
    },
    required: ['order_id'],
    additionalProperties: false,
    $defs: {
      address: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
  },
  example: { order_id: 'o-1', total: 12.5, address: { city: 'Brno' } },
}
export const orderLost: Declaration = {
  name: 'order.lost_in_transit',
  description: 'Nobody knows where it is',
  schema: { type: 'object' },
  example: {},
}

export const stored = ({ schema, example, ...rest }: Declaration): CustomEventType => ({
  ...rest,
  schema: JSON.stringify(schema),
  example: JSON.stringify(example),
})
