import type { OrgId } from '../kernel/ids.ts'
import type { Database } from '../store/database.ts'
import { type Outcome, publishReport, publishWhereFree } from './publish.ts'
import { createReportsInTurn, settle } from './reports-in-turn.ts'
import { isOfOne, type Reporting, takeGroup, type Waiting } from './waiting-reports.ts'

/** Larger reports gain nothing by being written with those of others, who would wait for them. */
const smallReportEventsMax = 16
const atOnceMax = 256

/**
 * Writes down what other platforms report. What is small gathers while the last group is on its way to the disk, and follows
 * in one commit, whosever it is: a commit for each would cost five times as much. That never waits for an organization in
 * which somebody else publishes, or which has many webhooks: what is reported of those waits for its own turn.
 */
export function createReporting(deps: { db: Database; hint(): void }) {
  const inTurn = createReportsInTurn(deps)
  const gathered: Waiting[] = []
  let isWriting = false

  function add(waiting: Waiting): void {
    if (waiting.events.length > smallReportEventsMax) {
      inTurn.add(waiting)
      return
    }
    gathered.push(waiting)
    if (isWriting) return
    isWriting = true
    // Whatever else has arrived by now comes along.
    setImmediate(() => void writeGathered())
  }

  async function writeGathered(): Promise<void> {
    while (gathered.length > 0) {
      const group = takeGroup(gathered, atOnceMax)
      // Behind what came before them.
      const { true: later = [], false: now = [] } = Object.groupBy(group, ({ orgId }) => `${inTurn.isWriting(orgId)}`)
      later.forEach(inTurn.add)
      await write(now)
    }
    isWriting = false
  }

  async function write(group: readonly Waiting[]): Promise<void> {
    // One organization alone is written in half the time by itself.
    if (new Set(group.map(({ orgId }) => orgId)).size < 2) return group.forEach(inTurn.add)
    let outcomes: Map<Waiting, Outcome>
    try {
      outcomes = await publishWhereFree(deps.db, group)
    } catch (error) {
      // Each by itself, where that is safe: whoever caused it takes no other with it.
      for (const waiting of group) isOfOne(error) ? inTurn.add(waiting) : waiting.reject(error)
      return
    }
    for (const waiting of group) {
      const outcome = outcomes.get(waiting)
      if (outcome === undefined) inTurn.add(waiting)
      else settle(waiting, outcome)
    }
    if (outcomes.size > 0) deps.hint()
  }

  /** All or none of them, so in a transaction of their own. */
  async function writeTogether(byOrganization: Map<OrgId, number[]>, { actor, events }: Reporting): Promise<string[]> {
    const ids: string[] = []
    await deps.db.begin(async (tx) => {
      // In one order everywhere: two reports that take the same organizations must not wait for each other.
      for (const orgId of [...byOrganization.keys()].sort()) {
        const places = byOrganization.get(orgId)!
        const published = await publishReport(tx, orgId, { actor, events: places.map((place) => events[place]!) })
        places.forEach((place, n) => {
          ids[place] = published[n]!
        })
      }
    })
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
