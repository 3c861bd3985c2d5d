import type { Api, ListOptions } from '../api.ts'
import type { List } from '../list.ts'

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

export type EventTypeRecord = {
  name: EventType
  description: string
  /** Whether it is beside the six: declared or enabled by the operator. */
  custom: boolean
  /** A body as it would be sent. */
  example: Record<string, unknown>
}

export const eventTypes = (api: Api) => ({
  /** What a webhook can subscribe to. */
  list: (options: ListOptions = {}): List<EventTypeRecord> => api.list(api.platform(options, 'event-types'), options),
})
