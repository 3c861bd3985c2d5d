import { eventIdPattern, type OrgId } from '../lib/ids.ts'

const database_id = 'db_00000000000000000000000000'
const backup_id = 'bak_00000000000000000000000000'

/**
 * The six event types of the published interface, in its order, with the data of test events: ids that do not exist, and a few facts.
 * A receiver reads more through the API, with its own permissions.
 */
const samples = {
  'database.created': { database_id, name: 'sample' },
  'database.failed': { database_id, name: 'sample', reason: 'This is a sample.' },
  'backup.completed': { backup_id, database_id, size_bytes: 1_048_576 },
  'backup.failed': { backup_id, database_id, reason: 'This is a sample.' },
  'restore.completed': { restore_id: 'rst_00000000000000000000000000', backup_id, database_id },
  'invoice.paid': {
    invoice_id: 'inv_00000000000000000000000000',
    month: '2026-01',
    currency: 'EUR',
    total_minor: 1_000,
    paid_at: '2026-02-01T00:00:00.000Z',
  },
}

export type EventData = typeof samples
export type EventType = keyof EventData
export const eventTypes = Object.keys(samples) as EventType[]
export const sampleData = (type: EventType): object => samples[type]

/** An event of this platform. An unknown type or wrong data does not compile. */
export type NewEvent = { [T in EventType]: { orgId: OrgId; type: T; data: EventData[T] } }[EventType]

/** An event of another platform: the type is one of the six or declared, the data is its own. `id` is null where we choose it. */
export type IntakeEvent = { orgId: OrgId; type: string; data: object; id: string | null }

const eventIdShape = new RegExp(eventIdPattern)
export const isEventId = (text: string): boolean => eventIdShape.test(text)

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

const six: ReadonlySet<string> = new Set(eventTypes)
export const isPublishedType = (name: string): name is EventType => six.has(name)

export const firesWhen: Readonly<Record<EventType, string>> = {
  'database.created': 'A database finishes provisioning successfully.',
  'database.failed': 'A database provisioning job fails.',
  'backup.completed': 'A backup finishes successfully.',
  'backup.failed': 'A backup job fails.',
  'restore.completed': 'A restore into a new database finishes successfully.',
  'invoice.paid': 'An invoice is marked paid.',
}

/** A type that the operator has declared beside the six. `schema` and `example` are JSON texts, of the event's data. */
export type CustomEventType = { name: string; description: string; schema: string; example: string }
