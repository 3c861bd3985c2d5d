import { type Database, isLockTimeout } from '../../db/database.ts'
import { Fault } from '../../kernel/faults.ts'
import type { OrgId } from '../../kernel/ids.ts'
import type { Announcement } from '../../store/delivery/announcements.ts'
import { takeTurns, type Wait } from '../../store/delivery/events.ts'
import { type Outcome, publishNews, publishReports } from './publish.ts'
import type { Turns } from './turns.ts'
import { isOfOne, type Waiting } from './waiting-reports.ts'

/**
 * How many events are written at once: as many as are written in a moment, which is found out by doing it, for it depends on
 * how many webhooks they go to. More would gain nothing, and whoever publishes next would wait for it.
 */
const atOnceFirst = 16
const atOnceMax = 1_000
const bytesAtOnceMax = 1_024 * 1_024
const quickMs = 100
const slowMs = 300

/**
 * Writes down what is reported of one organization. Its publishers take turns, each for the time of a commit: so what comes
 * while one is on its way to the disk gathers, and follows in one commit. Organizations do not wait for each other.
 */
export function createReportsInTurn(deps: {
  db: Database
  turns: Turns
  hint(announcements?: readonly Announcement[] | null): void
}) {
  /** Of organizations that something is being written for. What came of it is said as it leaves the queue, and not before. */
  const queues = new Map<OrgId, Waiting[]>()

  async function writeAll(orgId: OrgId, queue: Waiting[]): Promise<void> {
    let atOnce = atOnceFirst
    while (queue.length > 0) {
      const ms = await deps.turns.take(async (wait) => {
        const begun = performance.now()
        await writeFirst(orgId, queue, countAtOnce(queue, atOnce), wait)
        return performance.now() - begun
      })
      if (ms > slowMs) atOnce = Math.ceil(atOnce / 2)
      else if (ms < quickMs) atOnce = Math.min(atOnceMax, atOnce * 2)
    }
    queues.delete(orgId)
  }

  async function writeFirst(orgId: OrgId, queue: Waiting[], count: number, wait: Wait): Promise<void> {
    const group = queue.slice(0, count)
    let published: { outcomes: readonly Outcome[]; announcements: readonly Announcement[] | null }
    try {
      published = (await publishNews(deps.db, orgId, group, wait)) ?? (await publishKnown(orgId, group, wait))
    } catch (error) {
      if (isLockTimeout(error)) {
        // It stays where it is, and its turn comes again.
        if (wait === 'moment') throw error
        // Else each of them would wait as long as these have, one after the other.
        for (const { reject } of queue.splice(0)) reject(error)
      } else if (group.length > 1 && isOfOne(error)) await writeHalves(orgId, queue, group.length, wait)
      else for (const { reject } of queue.splice(0, group.length)) reject(error)
      return
    }
    queue.splice(0, group.length).forEach((waiting, i) => void settle(waiting, published.outcomes[i]!))
    deps.hint(published.announcements)
  }

  const publishKnown = (orgId: OrgId, group: readonly Waiting[], wait: Wait) =>
    deps.db.begin(async (tx) => {
      await takeTurns(tx, [orgId], wait)
      return { outcomes: await publishReports(tx, orgId, group), announcements: null }
    })

  /** Until the one stands alone that cannot be stored: it takes no other with it. */
  async function writeHalves(orgId: OrgId, queue: Waiting[], count: number, wait: Wait): Promise<void> {
    const middle = count >> 1
    await writeFirst(orgId, queue, middle, wait)
    // None is left where the first were told to come again.
    if (queue.length > 0) await writeFirst(orgId, queue, count - middle, wait)
  }

  return {
    isWriting: (orgId: OrgId): boolean => queues.has(orgId),

    add(waiting: Waiting): void {
      const { orgId } = waiting
      const queue = queues.get(orgId)
      if (queue !== undefined) return void queue.push(waiting)
      const fresh = [waiting]
      queues.set(orgId, fresh)
      // Whatever else has arrived by now comes along.
      setImmediate(() => void writeAll(orgId, fresh))
    },
  }
}

/** The first of a queue, and as many behind it as may come along. */
function countAtOnce(queue: readonly Waiting[], eventsMax: number): number {
  let events = 0
  let bytes = 0
  const end = queue.findIndex((one, place) => {
    events += one.events.length
    bytes += one.bytes
    return place > 0 && (events > eventsMax || bytes > bytesAtOnceMax)
  })
  return end === -1 ? queue.length : end
}

export function settle({ resolve, reject }: Waiting, outcome: Outcome): void {
  if (outcome instanceof Fault) reject(outcome)
  else resolve(outcome)
}
