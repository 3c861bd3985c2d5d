import type { OrgId } from '../../kernel/ids.ts'
import type { Announcement } from '../../store/delivery/announcements.ts'
import { deliveryOf } from '../../store/delivery/due.ts'
import type { LaneNews } from '../../store/delivery/news.ts'
import type { DispatchStore } from './dispatch-store.ts'
import { type Lane, takeAnnounced, takeFresh } from './lane.ts'

/** `forFree`: free lanes have news. `more`: not everything that there is to tell was told yet. */
type Heard = { forFree: boolean; more: boolean }

/**
 * How a dispatcher hears of what has been published. News of lanes that it holds it takes as it is; that is written to them
 * when it looks for free lanes the next time, for no delivery waits for it, and it costs less for many events at once. News of free
 * lanes is written at once, so that somebody takes them; of lanes that others hold, those hear themselves.
 */
export function createHearing(deps: {
  store: Pick<DispatchStore, 'news' | 'wake'>
  owner: string
  lanes: ReadonlyMap<number, Lane>
  tell(lane: Lane, news: { headSeq: number }): void
  /** News was written for lanes that others hold. */
  tellHolders(): void
}) {
  const { store, lanes } = deps
  /**
   * Empty when lanes are taken, which only ever follows a writing: so none of them can have missed what was seen. Nor can what
   * was seen on a server before this one hide anything from them.
   */
  const seen = new Map<OrgId, number>()
  /** Newest event of each organization that was announced or heard of, since the last writing. */
  const newest = new Map<OrgId, number>()

  function take(lane: Lane, news: LaneNews): void {
    takeFresh(lane, news)
    deps.tell(lane, { headSeq: news.fresh.at(-1)!.eventSeq })
  }

  /** Says whether there is nothing else to hear: it is all for lanes that are held here. */
  function takeAnnouncement({ orgId, server, events }: Announcement): boolean {
    const before = newest.get(orgId)
    newest.set(orgId, Math.max(before ?? 0, events.at(-1)!.seq))
    // Others publish there as well, and what they say is still on its way: the news has it all.
    if (before !== undefined && events[0]!.seq > before + 1) return false
    let isAll = true
    for (const { laneIds, seq, id, type, publishedAtMs, body } of events) {
      const event = { eventId: id, eventType: type, publishedAtMs, body: Buffer.from(body) }
      for (const laneId of laneIds) {
        const lane = lanes.get(laneId)
        if (lane === undefined || lane.releasing || lane.leased.server !== server) {
          isAll = false
          continue
        }
        takeAnnounced(lane, deliveryOf({ laneId, eventSeq: seq, attempts: 0, tries: 0 }, event))
        deps.tell(lane, { headSeq: seq })
      }
    }
    return isAll
  }

  async function write(): Promise<Heard> {
    const { lanes: woken, more } = await store.wake()
    seen.clear()
    newest.clear()
    for (const { laneId, headSeq } of woken) {
      const lane = lanes.get(laneId)
      // While it is being given back the release itself will notice.
      if (lane !== undefined && !lane.releasing) deps.tell(lane, { headSeq })
    }
    if (woken.some(({ laneId, held }) => held && !lanes.has(laneId))) deps.tellHolders()
    return { forFree: woken.some(({ held }) => !held), more }
  }

  return {
    /** What publishers say themselves. Nothing counts as seen for it: what is missed or wrong here, hearing and reading make good. */
    takeAnnouncements(announcements: readonly Announcement[]): boolean {
      let isAll = true
      for (const one of announcements) isAll = takeAnnouncement(one) && isAll
      return isAll
    },
    async hear(inWriting: boolean): Promise<Heard> {
      if (inWriting || lanes.size === 0) return write()
      const news = await store.news(deps.owner, seen)
      let isLeaving = false
      for (const one of news.lanes) {
        const lane = lanes.get(one.laneId)
        // Of one that is being given back, or was lost meanwhile, nobody here can say any more whose news it is.
        if (lane === undefined || lane.releasing) isLeaving = true
        else take(lane, one)
      }
      if (!news.complete || news.forFree || isLeaving) return write()
      // Only now, and only of what lanes here have got or others have to hear for themselves: what counts as seen is not
      // shown again.
      for (const [orgId, seq] of news.seen) {
        seen.set(orgId, seq)
        newest.set(orgId, Math.max(newest.get(orgId) ?? 0, seq))
      }
      return { forFree: false, more: false }
    },
  }
}
