import type { OrgId } from '../kernel/ids.ts'
import type { EventType } from './event-types.ts'

/** The data of each event: ids and a few facts. A receiver reads more through the API, with its own permissions. */
export type EventData = {
  'database.created': { database_id: string; name: string }
  'database.failed': { database_id: string; name: string; reason: string }
  'backup.completed': { backup_id: string; database_id: string; size_bytes: number }
  'backup.failed': { backup_id: string; database_id: string; reason: string }
  'restore.completed': { restore_id: string; backup_id: string; database_id: string }
  'invoice.paid': { invoice_id: string; month: string; currency: string; total_minor: number; paid_at: string }
}

/** An event of this platform. An unknown type or wrong data does not compile. */
export type NewEvent = { [T in EventType]: { orgId: OrgId; type: T; data: EventData[T] } }[EventType]

/** An event of another platform: the type is one of the six or declared, the data is its own. `id` is null where we choose it. */
export type IntakeEvent = { orgId: OrgId; type: string; data: object; id: string | null }

/**
 * External ids are used in a header, in a path and in the signed content of Standard Webhooks, so only characters without a meaning
 * there are allowed. No dot: it separates id and time in the signed content, and one signature would fit two messages.
 */
export const eventIdPattern = '^[A-Za-z0-9][A-Za-z0-9_:-]{0,127}$'
const eventIdShape = new RegExp(eventIdPattern)
export const isEventId = (text: string): boolean => eventIdShape.test(text)

/** The signed bytes that every receiver gets. The order of the fields matters. */
export const eventBody = (event: { id: string; type: string; at: Date; data: object }): string =>
  JSON.stringify({ id: event.id, type: event.type, timestamp: event.at.toISOString(), data: event.data })

/** Comparing much deeper events would overflow the stack. */
export const levelsMax = 200

/** The size of an event's data, and the problem with it as a text for the caller, or null. */
export function measureData(data: object, bytesMax: number): { bytes: number; fault: string | null } {
  const text = JSON.stringify(data)
  const bytes = Buffer.byteLength(text)
  if (bytes > bytesMax) return { bytes, fault: `must have at most ${bytesMax} bytes` }
  if (levelsOf(text) > levelsMax) return { bytes, fault: `must have at most ${levelsMax} levels` }
  return { bytes, fault: null }
}

function levelsOf(json: string): number {
  // Every level takes at least two characters.
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
