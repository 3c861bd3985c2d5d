import Type from 'typebox'
import type { Actor } from '../../domain/audit.ts'
import { type EventType, eventTypes } from '../../domain/event-types.ts'
import { eventIdPattern, type ReportedEvent } from '../../domain/events.ts'
import { type Fault, type FieldError, invalid } from '../../kernel/faults.ts'
import type { OrgId } from '../../kernel/ids.ts'
import type { Database } from '../../store/database.ts'
import { existingOrganizations, UnknownOrganization } from '../../store/events.ts'
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
  report(reporting: { actor: Actor; events: readonly ReportedEvent[]; bytes: number }): Promise<string[]>
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
        const faults = () => faultsOf(deps, list, (i) => (Array.isArray(given) ? `/${i}` : ''))
        const sizes = list.map(sizeOf)
        if (sizes.some((bytes) => bytes > deps.eventBytesMax)) throw await faults()
        const events = list.map(({ organization_id: orgId, type, data, id = null }) => ({ orgId, type, data, id }))
        const bytes = sizes.reduce((sum, one) => sum + one)
        const ids = await deps.report({ actor, events, bytes }).catch(async (error) => {
          throw error instanceof UnknownOrganization ? await faults() : error
        })
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

const sizeOf = ({ data }: Reported): number => Buffer.byteLength(JSON.stringify(data))

/** All that is wrong, not only what was stumbled over. */
async function faultsOf(
  { db, eventBytesMax }: { db: Database; eventBytesMax: number },
  list: readonly Reported[],
  pointer: (i: number) => string,
): Promise<Fault> {
  const known = await existingOrganizations(db, [...new Set(list.map((event) => event.organization_id))])
  const errors = list.flatMap((event, i): FieldError[] => {
    if (!known.has(event.organization_id)) {
      return [{ pointer: `${pointer(i)}/organization_id`, detail: 'must be an organization that exists' }]
    }
    if (sizeOf(event) > eventBytesMax) {
      return [{ pointer: `${pointer(i)}/data`, detail: `must have at most ${eventBytesMax} bytes` }]
    }
    return []
  })
  return invalid(errors as [FieldError, ...FieldError[]])
}
