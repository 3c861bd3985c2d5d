import type { Actor } from '../domain/audit.ts'
import type { ReportedEvent } from '../domain/events.ts'
import { Fault } from '../kernel/faults.ts'
import type { OrgId } from '../kernel/ids.ts'
import { type Database, wasRefused } from '../store/database.ts'
import { UnknownOrganization } from '../store/events.ts'
import { type Outcome, publishNews, publishReport, publishReports, type Report } from './publish.ts'

/** As the reporter gave it; `bytes` is about what it takes to write it down. */
export type Reporting = { actor: Actor; events: readonly ReportedEvent[]; bytes: number }

/**
 * How many events are written at once: as many as are written in a moment, which is found out by doing it, for it depends on
 * how many webhooks they go to. More would gain nothing, and whoever publishes next would wait for it.
 */
const atOnceFirst = 16
const atOnceMax = 1_000
const bytesAtOnceMax = 1_024 * 1_024
const quickMs = 100
const slowMs = 300

type Waiting = Reporting & { resolve(ids: string[]): void; reject(error: unknown): void }

/**
 * Writes down what is reported. The publishers of an organization take turns, each for the time of a commit: so what comes
 * while one is on its way to the disk gathers, and follows in one commit. Organizations do not wait for each other.
 */
export function createReporting(deps: { db: Database; hint(): void }) {
  /** Of organizations that something is being written for. */
  const queues = new Map<OrgId, Waiting[]>()

  async function writeAll(orgId: OrgId, queue: Waiting[]): Promise<void> {
    let atOnce = atOnceFirst
    while (queue.length > 0) {
      const begun = performance.now()
      await write(orgId, takeGroup(queue, atOnce))
      const ms = performance.now() - begun
      if (ms > slowMs) atOnce = Math.ceil(atOnce / 2)
      else if (ms < quickMs) atOnce = Math.min(atOnceMax, atOnce * 2)
    }
    queues.delete(orgId)
  }

  async function write(orgId: OrgId, group: readonly Waiting[]): Promise<void> {
    let outcomes: readonly Outcome[]
    try {
      outcomes =
        (await publishNews(deps.db, orgId, group)) ?? (await deps.db.begin((tx) => publishReports(tx, orgId, group)))
    } catch (error) {
      if (group.length > 1 && isOfOne(error)) await writeHalves(orgId, group)
      else for (const { reject } of group) reject(error)
      return
    }
    group.forEach(({ resolve, reject }, i) => {
      const outcome = outcomes[i]!
      if (outcome instanceof Fault) reject(outcome)
      else resolve(outcome)
    })
    deps.hint()
  }

  /** Until the one stands alone that cannot be stored: it takes no other with it. */
  async function writeHalves(orgId: OrgId, group: readonly Waiting[]): Promise<void> {
    const middle = group.length >> 1
    await write(orgId, group.slice(0, middle))
    await write(orgId, group.slice(middle))
  }

  function writeInTurn(orgId: OrgId, reporting: Reporting): Promise<string[]> {
    return new Promise((resolve, reject) => {
      const waiting = { ...reporting, resolve, reject }
      const queue = queues.get(orgId)
      if (queue !== undefined) return void queue.push(waiting)
      const fresh = [waiting]
      queues.set(orgId, fresh)
      // Whatever else has arrived by now comes along.
      setImmediate(() => void writeAll(orgId, fresh))
    })
  }

  /** All or none of them, so in a transaction of their own. */
  async function writeTogether(byOrganization: Map<OrgId, number[]>, { actor, events }: Reporting): Promise<string[]> {
    const ids: string[] = []
    await deps.db.begin(async (tx) => {
      // In one order everywhere: two reports that take the same organizations must not wait for each other.
      for (const orgId of [...byOrganization.keys()].sort()) {
        const places = byOrganization.get(orgId)!
        const report: Report = { actor, events: places.map((place) => events[place]!) }
        const published = await publishReport(tx, orgId, report)
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
      return writeInTurn(reporting.events[0]!.orgId, reporting)
    },
  }
}

/** PostgreSQL has said no, or was never asked. After anything else, such as a connection that broke, it may well be on disk. */
const isOfOne = (error: unknown): boolean =>
  !(error instanceof UnknownOrganization) && (wasRefused(error) || (error instanceof Error && !('code' in error)))

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
