import type { Database, Transaction } from '../../db/database.ts'
import type { OrgId } from '../../kernel/ids.ts'
import type { Announcement } from '../../store/delivery/announcements.ts'
import { takeTurns, type Wait } from '../../store/delivery/events.ts'
import { publishReport, publishWhereFree } from './publish.ts'
import { createReportsInTurn, settle } from './reports-in-turn.ts'
import { createTurns } from './turns.ts'
import { isOfOne, type Reporting, type Waiting } from './waiting-reports.ts'

/** What an organization may add to a group. With more there is nothing to gain, and the others would wait for it. */
const shareMax = { events: 16, bytes: 16 * 1_024 }
const groupMax = { events: 256, bytes: 512 * 1_024 }

/** Of one organization, in the order that it came in. */
type Share = { reports: Waiting[]; events: number; bytes: number }

/**
 * Writes down what other platforms report. It gathers while the last group is on its way to the disk, and follows in one commit,
 * whosever it is: a commit for each would cost five times as much. That never waits for an organization in which somebody else
 * publishes, which has many webhooks or reports much: what is reported of those waits for its own turn.
 */
export function createReporting(deps: {
  db: Database
  /** How many may wait for publishers elsewhere at a time, each with a connection. */
  waitingMax: number
  hint(announcements?: readonly Announcement[] | null): void
}) {
  const turns = createTurns(deps.waitingMax)
  const inTurn = createReportsInTurn({ ...deps, turns })
  const gathered = new Map<OrgId, Share>()
  let isWriting = false

  function add(waiting: Waiting): void {
    const share = gathered.get(waiting.orgId) ?? { reports: [], events: 0, bytes: 0 }
    share.reports.push(waiting)
    share.events += waiting.events.length
    share.bytes += waiting.bytes
    gathered.set(waiting.orgId, share)
    if (isWriting) return
    isWriting = true
    // Whatever else has arrived by now comes along.
    setImmediate(() => void writeGathered())
  }

  async function writeGathered(): Promise<void> {
    while (gathered.size > 0) await write(takeGroup())
    isWriting = false
  }

  function takeGroup(): Waiting[] {
    const group: Waiting[] = []
    let events = 0
    let bytes = 0
    for (const [orgId, share] of gathered) {
      const isOwn = inTurn.isWriting(orgId) || share.events > shareMax.events || share.bytes > shareMax.bytes
      const isFull = events + share.events > groupMax.events || bytes + share.bytes > groupMax.bytes
      // It stays where it is, and is the first next time.
      if (!isOwn && isFull && group.length > 0) continue
      gathered.delete(orgId)
      if (isOwn) share.reports.forEach(inTurn.add)
      else {
        group.push(...share.reports)
        events += share.events
        bytes += share.bytes
      }
    }
    return group
  }

  async function write(group: readonly Waiting[]): Promise<void> {
    // One organization alone is written in half the time by itself, unless it would have to stand in line for that.
    const worthwhile = turns.areTaken() ? 1 : 2
    if (new Set(group.map(({ orgId }) => orgId)).size < worthwhile) return group.forEach(inTurn.add)
    let published: Awaited<ReturnType<typeof publishWhereFree<Waiting>>>
    try {
      published = await publishWhereFree(deps.db, group)
    } catch (error) {
      // Each by itself, where that is safe: whoever caused it takes no other with it.
      for (const waiting of group) isOfOne(error) ? inTurn.add(waiting) : waiting.reject(error)
      return
    }
    const { outcomes, announcements } = published
    for (const waiting of group) {
      const outcome = outcomes.get(waiting)
      if (outcome === undefined) inTurn.add(waiting)
      else settle(waiting, outcome)
    }
    if (outcomes.size > 0) deps.hint(announcements)
  }

  /** All or none of them, so in a transaction of their own. */
  async function writeTogether(byOrganization: Map<OrgId, number[]>, { actor, events }: Reporting): Promise<string[]> {
    const ids: string[] = []
    const publishAll = async (tx: Transaction, wait: Wait) => {
      await takeTurns(tx, [...byOrganization.keys()], wait)
      // Said one behind the other, so that nobody is held for as long as it takes to hear of all the others.
      const published = Array.from(byOrganization, ([orgId, theirs]) =>
        publishReport(tx, orgId, { actor, events: theirs.map((place) => events[place]!) }),
      )
      // What is said after the end of a transaction would be one of its own: nothing ends before all have.
      await Promise.allSettled(published)
      for (const [n, theirs] of [...byOrganization.values()].entries()) {
        const named = await published[n]!
        theirs.forEach((place, i) => {
          ids[place] = named[i]!
        })
      }
    }
    await turns.take((wait) => deps.db.begin((tx) => publishAll(tx, wait)))
    deps.hint()
    return ids
  }

  return {
    /** The ids of the events, which are on disk then. */
    report(reporting: Reporting): Promise<string[]> {
      const byOrganization = Map.groupBy(reporting.events.keys(), (i) => reporting.events[i]!.orgId)
      if (byOrganization.size > 1) return writeTogether(byOrganization, reporting)
      const [orgId] = byOrganization.keys()
      return new Promise((resolve, reject) => add({ ...reporting, orgId: orgId!, resolve, reject }))
    },
  }
}
