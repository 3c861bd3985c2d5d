import type { StandardEventType } from './resources/event-types.ts'

/** The `data` of each standard event. */
export type EventData = {
  'database.created': { database_id: string; name: string }
  'database.failed': { database_id: string; name: string; reason: string }
  'backup.completed': { backup_id: string; database_id: string; size_bytes: number }
  'backup.failed': { backup_id: string; database_id: string; reason: string }
  'restore.completed': { restore_id: string; backup_id: string; database_id: string }
  'invoice.paid': { invoice_id: string; month: string; currency: string; total_minor: number; paid_at: string }
}

/** The body of a delivery. Use it to describe event types that your operator has declared. */
export type EventOf<Type extends string, Data extends object> = {
  /** The same on every attempt: remember it to handle an event once. */
  id: string
  type: Type
  timestamp: string
  /** With `test: true` in a test event. */
  data: Data & { test?: true }
}

/** One of the six standard events; `type` tells which. */
export type WebhookEvent = { [Type in StandardEventType]: EventOf<Type, EventData[Type]> }[StandardEventType]
