import { Fault } from '../../kernel/faults.ts'
import type { OrgId } from '../../kernel/ids.ts'
import { type Database, isLockTimeout } from '../../store/database.ts'
import { takeTurns } from '../../store/delivery/events.ts'
import type { Places } from './places.ts'
import { type Outcome, publishNews, publishReports } from './publish.ts'
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
export function createReportsInTurn(deps: { db: Database; places: Places; hint(): void }) {
  /** Of organizations that something is being written for. */
  const queues = new Map<OrgId, Waiting[]>()

  async function writeAll(orgId: OrgId, queue: Waiting[]): Promise<void> {
    let atOnce = atOnceFirst
    while (queue.length > 0) {
      const ms = await deps.places(async () => {
        const begun = performance.now()
        await write(orgId, takeGroup(queue, atOnce))
        return performance.now() - begun
      })
      if (ms > slowMs) atOnce = Math.ceil(atOnce / 2)
      else if (ms < quickMs) atOnce = Math.min(atOnceMax, atOnce * 2)
    }
    queues.delete(orgId)
  }

  async function write(orgId: OrgId, group: readonly Waiting[]): Promise<void> {
    let outcomes: readonly Outcome[]
    try {
      outcomes = (await publishNews(deps.db, orgId, group)) ?? (await publishKnown(orgId, group))
    } catch (error) {
      if (isLockTimeout(error)) {
        // Else each of them would wait as long as these have, one after the other.
        for (const { reject } of [...group, ...(queues.get(orgId)?.splice(0) ?? [])]) reject(error)
      } else if (group.length > 1 && isOfOne(error)) await writeHalves(orgId, group)
      else for (const { reject } of group) reject(error)
      return
    }
    group.forEach((waiting, i) => void settle(waiting, outcomes[i]!))
    deps.hint()
  }

  const publishKnown = (orgId: OrgId, group: readonly Waiting[]) =>
    deps.db.begin(async (tx) => {
      await takeTurns(tx, [orgId])
      return publishReports(tx, orgId, group)
    })

  /** Until the one stands alone that cannot be stored: it takes no other with it. */
  async function writeHalves(orgId: OrgId, group: readonly Waiting[]): Promise<void> {
    const middle = group.length >> 1
    await write(orgId, group.slice(0, middle))
    await write(orgId, group.slice(middle))
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

/** Takes the first of a queue, and as many behind it as may come along. */
function takeGroup(queue: Waiting[], eventsMax: number): Waiting[] {
  let events = 0
  let bytes = 0
  const end = queue.findIndex((one, place) => {
    events += one.events.length
    bytes += one.bytes
    return place > 0 && (events > eventsMax || bytes > bytesAtOnceMax)
  })
  return queue.splice(0, end === -1 ? queue.length : end)
}

export function settle({ resolve, reject }: Waiting, outcome: Outcome): void {
  if (outcome instanceof Fault) reject(outcome)
  else resolve(outcome)
}
