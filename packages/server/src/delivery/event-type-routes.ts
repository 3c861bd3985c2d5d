import Type from 'typebox'
import type { Database } from '../db/database.ts'
import { chosen } from '../http/basis.ts'
import { onlyPageQuery } from '../http/lists.ts'
import { type Listing, type Route, route } from '../http/route.ts'
import { parseExactly } from '../lib/json.ts'
import { isTypeName } from './event-declarations.ts'
import { acceptedEventType } from './event-type-schemas.ts'
import { listEventTypes } from './event-types.ts'
import { type CustomEventType, eventTypes, firesWhen, sampleData } from './events.ts'

const here = chosen(93)

const body = (type: string, data: unknown) => ({
  id: 'evt_00000000000000000000000000',
  type,
  timestamp: '2026-01-31T12:00:00.000Z',
  data,
})

const eventType = Type.Object(
  {
    name: acceptedEventType('What a webhook subscribes to.'),
    description: Type.String({ description: 'When it fires.', examples: [firesWhen['database.created']] }),
    custom: Type.Boolean({ description: 'Whether the operator has declared it, beside the six.' }),
    example: Type.Record(Type.String(), Type.Unknown(), {
      description: 'A body as it would be sent.',
      examples: [body(eventTypes[0], sampleData(eventTypes[0]))],
    }),
  },
  { $id: 'EventType', additionalProperties: false, ...here },
)

type Row = { name: string; description: string; custom: boolean; example: object }

const published: Row[] = eventTypes.map((name) => ({
  name,
  description: firesWhen[name],
  custom: false,
  example: body(name, sampleData(name)),
}))

const declared = ({ name, description, example }: CustomEventType): Row => ({
  name,
  description,
  custom: true,
  example: body(name, parseExactly(example)),
})

export function eventTypeRoutes(deps: { db: Database }): Route[] {
  const list: Listing<Row> = {
    async page({ before, limit }) {
      const all = [...published, ...(await listEventTypes(deps.db)).map(declared)]
      const start = before === null ? 0 : startAfter(all, before)
      return all.slice(start, start + limit)
    },
    keyOf: (row) => row.name,
    record: (row) => row,
    isKey: isTypeName,
  }
  return [
    route({
      method: 'GET',
      path: '/platform/v1/organizations/:orgId/event-types',
      needs: 'webhooks:read',
      audit: null,
      basis: here,
      tag: 'Webhooks',
      summary: 'List event types',
      description:
        'What a webhook can subscribe to: the six types of the interface, then those that the operator has declared, by name.',
      query: onlyPageQuery,
      success: {
        status: 200,
        description: 'The event types.',
        schema: Type.Array(eventType, { description: 'The six first.' }),
      },
      handler: () => ({ status: 200, list }),
    }),
  ]
}

/** The place after a name, which may be gone since. The declared types are in the order of their names. */
function startAfter(all: readonly Row[], name: string): number {
  const place = all.findIndex((row) => row.name === name)
  if (place >= 0) return place + 1
  const next = all.findIndex((row) => row.custom && row.name > name)
  return next === -1 ? all.length : next
}
