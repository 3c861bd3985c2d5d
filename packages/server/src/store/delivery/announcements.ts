import type { OrgId } from '../../kernel/ids.ts'
import type { StoredEvent } from './events.ts'

/** Only the old dispatcher and its simulation use these types; they are deleted with it. */
type AnnouncedEvent = StoredEvent & { seq: number; publishedAtMs: number; laneIds: number[] }
export type Announcement = { orgId: OrgId; server: string; events: AnnouncedEvent[] }
