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
