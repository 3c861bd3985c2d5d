import { isDeepStrictEqual } from 'node:util'
import type { Actor, AuditEntry } from '../access/audit.ts'
import { Fault } from '../lib/faults.ts'
import { newId, type OrgId } from '../lib/ids.ts'
import { parseExactly } from '../lib/json.ts'
import { activeTraceparent } from '../lib/tracing.ts'
import type { StoredEvent } from './event-log-sql.ts'
import type { IntakeEvent } from './events.ts'
import { type BatchEvent, eventBody, type IntakeBatch } from './publish.ts'

type Content = { type: string; data: unknown }
type Event = BatchEvent & Content
export type Request = { actor: Actor; events: readonly Event[] }
export type Conflict = Fault | null

export const batchMax = { events: 1_000, bytes: 1_024 * 1_024 }

export const orgOf = (request: Request): OrgId => request.events[0]!.orgId
export const orgsOf = ({ events }: Request): OrgId[] => [...new Set(events.map(({ orgId }) => orgId))]
export const hasNoNames = ({ events }: Request): boolean => !events.some(({ isNamed }) => isNamed)

/** A batch has events of several requests, so each takes the trace of its own with it. */
export function eventsOf(given: readonly IntakeEvent[]): Event[] {
  const traceparent = activeTraceparent()
  return given.map(({ orgId, id: name, type, data }) => {
    const id = name ?? newId('evt')
    const body = eventBody({ id, type, at: new Date(), data })
    return { orgId, id, isNamed: name !== null, type, data, body, traceparent }
  })
}

type Size = { events: number; bytes: number }
export const fits = (size: Size, max: Size): boolean => size.events <= max.events && size.bytes <= max.bytes

export function sizeOf(requests: readonly Request[]): Size {
  const size = { events: 0, bytes: 0 }
  for (const { events } of requests) {
    size.events += events.length
    for (const { body } of events) size.bytes += body.length
  }
  return size
}

/** How many requests fit into a batch, one at least. */
export function batchLength(queue: readonly Request[]): number {
  const size = { events: 0, bytes: 0 }
  const end = queue.findIndex((request, i) => {
    const { events, bytes } = sizeOf([request])
    size.events += events
    size.bytes += bytes
    return i > 0 && !fits(size, batchMax)
  })
  return end === -1 ? queue.length : end
}

/** Without names, all events are new. */
export const batchOfNew = (requests: readonly Request[]): IntakeBatch => ({
  events: requests.flatMap(({ events }) => events),
  entries: requests.map(({ actor, events }) => entryOf(actor, events)),
})

const entryOf = (actor: Actor, [first, ...others]: readonly Event[]): AuditEntry => ({
  orgId: first!.orgId,
  action: 'event.reported',
  actor,
  targetId: first!.id,
  details: { events: others.length + 1 },
})

/**
 * What is new in the requests, with an audit entry for each organization that a request adds something to. An id that exists with
 * the same content is the same event; with other content, that request is refused as a whole.
 */
export function batchOf(
  requests: readonly Request[],
  existing: readonly (StoredEvent & { orgId: OrgId })[] = [],
): IntakeBatch & { conflicts: Conflict[] } {
  const keyOf = ({ orgId, id }: { orgId: OrgId; id: string }) => `${orgId} ${id}`
  const known = new Map<string, Content>()
  for (const event of existing) {
    known.set(keyOf(event), { type: event.type, data: (parseExactly(event.body) as Content).data })
  }
  const events: Event[] = []
  const entries: AuditEntry[] = []
  const conflicts = requests.map((request): Conflict => {
    const added = new Map<string, Event>()
    for (const event of request.events) {
      const key = keyOf(event)
      const before = added.get(key) ?? known.get(key)
      if (before === undefined) added.set(key, event)
      else if (before.type !== event.type || !isDeepStrictEqual(before.data, event.data)) {
        return new Fault('events.id_taken', { public: `There is an event ${event.id} already, with other content.` })
      }
    }
    for (const [key, event] of added) known.set(key, event)
    events.push(...added.values())
    for (const own of Map.groupBy(added.values(), ({ orgId }) => orgId).values())
      entries.push(entryOf(request.actor, own))
    return null
  })
  return { events, entries, conflicts }
}
