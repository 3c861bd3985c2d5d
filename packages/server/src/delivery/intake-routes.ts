import type { ErrorObject } from 'ajv'
import Type from 'typebox'
import type { Database } from '../db/database.ts'
import { chosen } from '../http/basis.ts'
import { errorsShownMax, fieldErrors } from '../http/decode.ts'
import { type Created, operatorRoute, type Route } from '../http/route.ts'
import { exampleId, id } from '../http/schemas.ts'
import { type FieldError, invalid } from '../lib/faults.ts'
import { eventIdPattern, type OrgId } from '../lib/ids.ts'
import { checkData, createSchemaCache } from './event-declarations.ts'
import { existingOrganizations, UnknownOrganization } from './event-log-sql.ts'
import { acceptedEventType } from './event-type-schemas.ts'
import { findEventTypes } from './event-types.ts'
import { isPublishedType, levelsMax, measureData } from './events.ts'
import type { Intake } from './intake.ts'

const here = chosen(41)
const eventsMax = 1_000
const requestBytesMax = 32 * 1_024 * 1_024

type EventBody = { organization_id: OrgId; type: string; data: object; id?: string }

const newEvent = Type.Object(
  {
    organization_id: id('org', 'Whose event it is.'),
    type: acceptedEventType('What happened.'),
    data: Type.Object(
      {},
      {
        additionalProperties: true,
        description: `What there is to tell about it, at most ${levelsMax} levels deep.`,
      },
    ),
    id: Type.Optional(
      Type.String({
        pattern: eventIdPattern,
        description: 'A name of your own for the event. The same name again is the same event, and is not sent twice.',
      }),
    ),
  },
  { additionalProperties: false },
)

const body = Type.Unsafe<EventBody | EventBody[]>({
  examples: [
    { organization_id: 'org_01h455vb4pex5vsknk084sn02q', type: 'invoice.paid', data: { invoice: '2026-0042' } },
  ],
  if: { type: 'array' },
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema; a schema is never awaited.
  then: { type: 'array', minItems: 1, maxItems: eventsMax, items: newEvent },
  else: newEvent,
})

export function operatorEventRoutes(deps: { db: Database; eventBytesMax: number; intake: Intake }): Route[] {
  const checkDeclared = createDeclaredCheck(deps.db)
  return [
    operatorRoute({
      method: 'POST',
      path: '/operator/v1/events',
      audit: 'event.reported',
      basis: here,
      summary: 'Publish events',
      description: `Takes one event, or an array of up to ${eventsMax}: all of them or none. Each goes to the webhooks of its organization that are subscribed to its type.`,
      body,
      bodyBytesMax: requestBytesMax,
      passesOnNumbers: true,
      faults: ['events.id_taken'],
      success: {
        status: 202,
        description: 'The events are on disk and will be delivered. An object for an object, an array for an array.',
        schema: Type.Union([accepted(), Type.Array(accepted())]),
      },
      async handler({ actor, body: given, headers, once }) {
        const list = Array.isArray(given) ? given : [given]
        const events = list.map(({ organization_id: orgId, type, data, id = null }) => ({ orgId, type, data, id }))
        const found = list.map(({ data }) => sizeProblems(data, deps.eventBytesMax))
        // The other data may be too deep or too large for a schema.
        const isFit = (_: unknown, i: number) => found[i]!.length === 0
        const declared = await checkDeclared(list.filter(isFit))
        const problems = found.map((own) => (own.length > 0 ? own : declared.shift()!))
        const check = () => checkEvents(deps.db, list, problems, (i) => (Array.isArray(given) ? `/${i}` : ''))
        if (problems.some((own) => own.length > 0)) await check()
        const answerOf = (ids: readonly string[]): Created => {
          const records = ids.map((eventId) => ({ id: eventId }))
          return { status: 202, body: Array.isArray(given) ? records : records[0]! }
        }
        const request = { actor, events }
        // Without a key, requests that arrive together share a commit.
        const accepted =
          headers['idempotency-key'] === undefined
            ? deps.intake.accept(request).then(answerOf)
            : deps.intake.acceptWithin(request, (tx, publish) => once(tx, async () => answerOf(await publish())))
        return accepted.catch(async (error) => {
          if (error instanceof UnknownOrganization) await check()
          throw error
        })
      },
    }),
  ]
}

function accepted() {
  return Type.Object(
    { id: Type.String({ description: 'The event.', examples: [exampleId('evt')] }) },
    { $id: 'AcceptedEvent', additionalProperties: false, ...here },
  )
}

const sizeProblems = (data: object, bytesMax: number): FieldError[] => {
  const { fault } = measureData(data, bytesMax)
  return fault === null ? [] : [{ pointer: '/data', detail: fault }]
}

async function checkEvents(
  db: Database,
  list: readonly EventBody[],
  problems: readonly (readonly FieldError[])[],
  pointer: (i: number) => string,
): Promise<void> {
  const known = await existingOrganizations(db, [...new Set(list.map((event) => event.organization_id))])
  const faults = list.flatMap((event, i): FieldError[] => {
    if (!known.has(event.organization_id)) {
      return [{ pointer: `${pointer(i)}/organization_id`, detail: 'must be an organization that exists' }]
    }
    return problems[i]!.map((one) => ('pointer' in one ? { ...one, pointer: pointer(i) + one.pointer } : one))
  })
  const [first, ...others] = faults.slice(0, errorsShownMax)
  if (first !== undefined) throw invalid([first, ...others])
}

type Event = { type: string; data: object }

/** What is wrong with each event; pointers start at the event. */
type CheckDeclared = (events: readonly Event[]) => Promise<FieldError[][]>

/**
 * Checks the data of events whose types are declared by the schemas that are stored now. Events of the six types have any data,
 * and a batch without others makes no query.
 */
export function createDeclaredCheck(db: Database): CheckDeclared {
  const validatorOf = createSchemaCache()
  return async (events) => {
    const problems: FieldError[][] = events.map(() => [])
    const custom = events.flatMap(({ type }, i) => (isPublishedType(type) ? [] : [{ type, i }]))
    if (custom.length === 0) return problems
    const declared = await findEventTypes(db, [...new Set(custom.map(({ type }) => type))])
    const schemas = new Map(declared.map(({ name, schema }) => [name, schema]))
    const checked = custom.filter(({ type, i }) => {
      if (schemas.has(type)) return true
      problems[i] = [{ pointer: '/type', detail: 'must be an event type that is declared' }]
      return false
    })
    // Numbers that JavaScript would change are objects here, and have to be numbers for the schema.
    const plain = ({ data }: Event): unknown => JSON.parse(JSON.stringify(data))
    const found = checkData(
      checked.map(({ type, i }) => ({ validate: validatorOf(schemas.get(type)!), data: plain(events[i]!) })),
    )
    for (const [n, errors] of found.entries()) {
      problems[checked[n]!.i] = errors.flatMap((error): FieldError[] =>
        'reason' in error ? [{ pointer: '/data', detail: error.reason }] : [],
      )
      const broken = errors.filter((error): error is ErrorObject => !('reason' in error))
      problems[checked[n]!.i]!.push(...fieldErrors(broken, 'body').map(inData))
    }
    return problems
  }
}

const inData = (error: FieldError): FieldError =>
  'pointer' in error ? { ...error, pointer: `/data${error.pointer}` } : error
