/** The six event types of every Keyhook. */
export type StandardEventType =
  | 'database.created'
  | 'database.failed'
  | 'backup.completed'
  | 'backup.failed'
  | 'restore.completed'
  | 'invoice.paid'

/** A standard type, or one that the operator has declared. */
export type EventType = StandardEventType | (string & {})
