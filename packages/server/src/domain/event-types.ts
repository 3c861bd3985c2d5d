/** The six event types of the published interface, in its order. */
export const eventTypes = [
  'database.created',
  'database.failed',
  'backup.completed',
  'backup.failed',
  'restore.completed',
  'invoice.paid',
] as const

export type EventType = (typeof eventTypes)[number]

const six: ReadonlySet<string> = new Set(eventTypes)
export const isPublishedType = (name: string): name is EventType => six.has(name)

/** When each of them fires, as the published interface says. */
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
