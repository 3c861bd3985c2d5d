import Type from 'typebox'
import type { Actor } from '../../domain/audit.ts'
import { type EventType, eventTypes } from '../../domain/event-types.ts'
import { eventIdPattern, type ReportedEvent } from '../../domain/events.ts'
import { type FieldError, invalid } from '../../kernel/faults.ts'
import type { OrgId } from '../../kernel/ids.ts'
import type { Database, Transaction } from '../../store/database.ts'
import { existingOrganizations } from '../../store/events.ts'
import { chosen, mark } from '../basis.ts'
import { conflict, operatorRoute, type Route } from '../route.ts'
import { id } from '../schemas.ts'

const here = chosen(41)
const eventsMax = 1_000
const requestBytesMax = 32 * 1_024 * 1_024

type Reported = { organization_id: OrgId; type: EventType; data: object; id?: string }

const reported = Type.Object(
  {
    organization_id: mark(here, id('org', 'Whose event it is.')),
    type: mark(here, Type.Enum([...eventTypes], { description: 'What happened.' })),
    data: mark(here, Type.Object({}, { additionalProperties: true, description: 'What there is to tell about it.' })),
    id: Type.Optional(
      mark(
        here,
        Type.String({
          pattern: eventIdPattern,
          description:
            'A name of your own for the event. The same name again is the same event, and is not sent twice.',
        }),
      ),
    ),
  },
  { additionalProperties: false },
)

const body = Type.Unsafe<Reported | Reported[]>({
  examples: [{ organization_id: '$ORG', type: 'invoice.paid', data: { invoice: '2026-0042' } }],
  if: { type: 'array' },
  // biome-ignore lint/suspicious/noThenProperty: the keyword of JSON Schema; nobody awaits a schema.
  then: { type: 'array', minItems: 1, maxItems: eventsMax, items: reported },
  else: reported,
})

export function operatorEventRoutes(deps: {
  db: Database
  eventBytesMax: number
  publishReported(tx: Transaction, orgId: OrgId, actor: Actor, events: readonly ReportedEvent[]): Promise<string[]>
  hint(): void
}): Route[] {
  return [
    operatorRoute({
      method: 'POST',
      path: '/operator/v1/events',
      needs: 'operator',
      audit: 'event.reported',
      basis: here,
      summary: 'Report events',
      description: `Takes one event, or an array of up to ${eventsMax}: all of them or none. Each goes to the webhooks of its organization that are subscribed to its type.`,
      body,
      bodyBytesMax: requestBytesMax,
      passesOnNumbers: true,
      faults: [conflict(41, 'if an `id` is taken by an event that says something else')],
      success: {
        status: 202,
        description: 'The events are on disk and will be delivered. An object for an object, an array for an array.',
        schema: Type.Union([accepted(), Type.Array(accepted())]),
      },
      async handler({ actor, body: given }) {
        const list = Array.isArray(given) ? given : [given]
        const pointer = (i: number) => (Array.isArray(given) ? `/${i}` : '')
        await check(deps.db, list, pointer, deps.eventBytesMax)
        const ids: string[] = []
        await deps.db.begin(async (tx) => {
          // In one order everywhere: two reports that take the same organizations must not wait for each other.
          const byOrganization = Map.groupBy(list.keys(), (i) => list[i]!.organization_id)
          for (const orgId of [...byOrganization.keys()].sort()) {
            const places = byOrganization.get(orgId)!
            const events = places.map((i) => ({
              orgId,
              type: list[i]!.type,
              data: list[i]!.data,
              id: list[i]!.id ?? null,
            }))
            const published = await deps.publishReported(tx, orgId, actor, events)
            places.forEach((place, n) => {
              ids[place] = published[n]!
            })
          }
        })
        deps.hint()
        const answer = ids.map((eventId) => ({ id: eventId }))
        return { status: 202, body: Array.isArray(given) ? answer : answer[0]! }
      },
    }),
  ]
}

function accepted() {
  return Type.Object(
    { id: mark(here, Type.String({ description: 'The event.' })) },
    { $id: 'AcceptedEvent', additionalProperties: false },
  )
}

async function check(
  db: Database,
  list: readonly Reported[],
  pointer: (i: number) => string,
  eventBytesMax: number,
): Promise<void> {
  const known = await existingOrganizations(db, [...new Set(list.map((event) => event.organization_id))])
  const errors = list.flatMap((event, i): FieldError[] => {
    if (!known.has(event.organization_id)) {
      return [{ pointer: `${pointer(i)}/organization_id`, detail: 'must be an organization that exists' }]
    }
    if (Buffer.byteLength(JSON.stringify(event.data)) > eventBytesMax) {
      return [{ pointer: `${pointer(i)}/data`, detail: `must have at most ${eventBytesMax} bytes` }]
    }
    return []
  })
  if (errors.length > 0) throw invalid(errors as [FieldError, ...FieldError[]])
}
