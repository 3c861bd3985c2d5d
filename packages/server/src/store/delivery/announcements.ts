import type { EventType } from '../../domain/event-types.ts'
import type { OrgId } from '../../kernel/ids.ts'

export type StoredEvent = { id: string; type: EventType; body: string }

/** An event as its publisher knows it, with the lanes that it goes to. */
type AnnouncedEvent = StoredEvent & { seq: number; publishedAtMs: number; laneIds: number[] }

/**
 * What a publisher has committed, said by itself, so that whoever holds the lanes need not read it. It is good for the database that
 * gave the numbers, and as long as its server runs: another one gives them to other events.
 */
export type Announcement = { orgId: OrgId; server: string; events: AnnouncedEvent[] }

/** With more deliveries than this, lanes are better off reading what they have room for. */
export const announcedMax = 64

type Deliveries = {
  event_seqs: string[] | null
  lane_ids: string[] | null
  published_ms: string | null
  server: string | null
}
export type PublishedRow = Deliveries & { taken: string[] | null; newest: string | null }
export type PublishedWhereFreeRow = Deliveries & { free: OrgId[]; newest: string[] | null; org_ids: OrgId[] | null }

/** Null where it is too much to say. */
export function announcementOf(
  orgId: OrgId,
  events: readonly StoredEvent[],
  { newest, event_seqs, lane_ids, published_ms, server }: Omit<PublishedRow, 'taken'>,
): Announcement | null {
  const seqs = event_seqs ?? []
  if (newest === null || server === null || seqs.length > announcedMax) return null
  const firstSeq = Number(newest) - events.length + 1
  const announced = events.map(
    (event, i): AnnouncedEvent => ({ ...event, seq: firstSeq + i, publishedAtMs: Number(published_ms), laneIds: [] }),
  )
  seqs.forEach((seq, n) => void announced[Number(seq) - firstSeq]!.laneIds.push(Number(lane_ids![n])))
  return { orgId, server, events: announced }
}

/** The same of many organizations: of all that was written, or nothing. */
export function announcementsOf(
  publications: readonly { orgId: OrgId; events: readonly StoredEvent[] }[],
  { free, newest, org_ids, ...said }: PublishedWhereFreeRow,
): Announcement[] | null {
  const orgIds = org_ids ?? []
  if (orgIds.length > announcedMax) return null
  const written = publications.filter(({ orgId }) => free.includes(orgId))
  const announcements = written.flatMap(({ orgId, events }) => {
    const itsOwn = <T>(all: T[] | null) => (all ?? []).filter((_, n) => orgIds[n] === orgId)
    const deliveries = { event_seqs: itsOwn(said.event_seqs), lane_ids: itsOwn(said.lane_ids) }
    return announcementOf(orgId, events, { ...said, ...deliveries, newest: newest![free.indexOf(orgId)]! }) ?? []
  })
  return announcements.length === written.length ? announcements : null
}
