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
