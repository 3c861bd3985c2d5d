import type { OrgId } from '../kernel/ids.ts'
import type { EventType } from './event-types.ts'

/** What each event tells. Ids and facts only: a receiver that wants more asks for it, with its own permissions. */
export type EventData = {
  'database.created': { database_id: string; name: string }
  'database.failed': { database_id: string; name: string; reason: string }
  'backup.completed': { backup_id: string; database_id: string; size_bytes: number }
  'backup.failed': { backup_id: string; database_id: string; reason: string }
  'restore.completed': { restore_id: string; backup_id: string; database_id: string }
  'invoice.paid': { invoice_id: string; month: string; currency: string; total_minor: number; paid_at: string }
}

/** An event of this process, typed by its name: an unknown type or the wrong data does not compile. */
export type NewEvent = { [T in EventType]: { orgId: OrgId; type: T; data: EventData[T] } }[EventType]

/** An event of another platform: the type is one of ours, the data is its own. `id` is null where we choose it. */
export type IntakeEvent = { orgId: OrgId; type: EventType; data: object; id: string | null }

/**
 * Ids from outside end up in a header, in a path and in what Standard Webhooks signs, so they are held to characters that mean
 * nothing there. Of the last a dot parts the id from the time: with one in an id, one signature would fit two messages.
 */
export const eventIdPattern = '^[A-Za-z0-9][A-Za-z0-9_:-]{0,127}$'
const eventIdShape = new RegExp(eventIdPattern)
export const isEventId = (text: string): boolean => eventIdShape.test(text)

/** The bytes that every receiver gets, and that every signature covers. The order of the fields is part of them. */
export const eventBody = (event: { id: string; type: EventType; at: Date; data: object }): string =>
  JSON.stringify({ id: event.id, type: event.type, timestamp: event.at.toISOString(), data: event.data })

/** Far deeper, and comparing two events would overflow the stack. */
export const levelsMax = 200

/** How much there is to write down of an event's data, and what is wrong with it, in words for whoever sent it. */
export function measureData(data: object, bytesMax: number): { bytes: number; fault: string | null } {
  const text = JSON.stringify(data)
  const bytes = Buffer.byteLength(text)
  if (bytes > bytesMax) return { bytes, fault: `must have at most ${bytesMax} bytes` }
  if (levelsOf(text) > levelsMax) return { bytes, fault: `must have at most ${levelsMax} levels` }
  return { bytes, fault: null }
}

function levelsOf(json: string): number {
  // Every level takes two characters.
  if (json.length <= 2 * levelsMax) return 0
  let level = 0
  let deepest = 0
  let inString = false
  for (let at = 0; at < json.length; at++) {
    const char = json[at]!
    if (inString && char === '\\') at += 1
    else if (char === '"') inString = !inString
    else if (inString) continue
    else if (char === '[' || char === '{') deepest = Math.max(deepest, ++level)
    else if (char === ']' || char === '}') level -= 1
  }
  return deepest
}
