import type { DispatchStore } from '../../src/delivery/dispatcher/ports.ts'
import type { DueDelivery } from '../../src/delivery/statements/fetch.ts'
import type { LeasedLane } from '../../src/delivery/statements/lease.ts'
import type { OrgId, WebhookId } from '../../src/lib/ids.ts'
import { createTables, type InFlightRow, keyOf, type LaneRow, type RetryRow } from './tables.ts'

/** Every function of the dispatcher's store, done at once: a statement of PostgreSQL is atomic. */
export type Statements = {
  [Name in keyof DispatchStore]: (...given: Parameters<DispatchStore[Name]>) => Awaited<ReturnType<DispatchStore[Name]>>
}

export type Model = ReturnType<typeof createModel>
export type ModelOptions = { now(): number; leaseMs(): number; wakesMax: number }

/** The statements of `src/delivery/statements` in memory. conformance.test.ts compares them with the real ones. */
export function createModel({ now, leaseMs, wakesMax }: ModelOptions) {
  const tables = createTables(now)
  const { lanes, deliveries, retries, inFlight, attempts, locked } = tables

  const isHeld = (lane: LaneRow | undefined, token: number): lane is LaneRow =>
    lane !== undefined && lane.token === token && lane.owner !== null && lane.server === tables.server
  const isPaused = (lane: LaneRow) => lane.pausedMs !== null && lane.pausedMs > now()
  const afterPause = (lane: LaneRow, ms: number) => Math.max(ms, lane.pausedMs ?? ms)
  const settingsOf = ({ rateLimit }: LaneRow) => ({
    url: '',
    secret: { keyId: '', box: Buffer.alloc(0) },
    rotation: null,
    rateLimit,
  })
  const earliest = (times: readonly number[]) => (times.length > 0 ? Math.min(...times) : null)
  const dueDelivery = (lane: LaneRow, eventSeq: number, row?: RetryRow): DueDelivery => {
    const { eventId, publishedMs, sequence } = tables.eventOf(lane.id, eventSeq)!
    return {
      laneId: lane.id,
      eventSeq,
      eventId,
      eventType: 'database.created',
      body: Buffer.alloc(0),
      publishedAtMs: publishedMs,
      traceparent: null,
      sequence,
      previousSequence: sequence === null ? null : tables.previousSequence(lane.id, eventSeq),
      attempts: row?.attempt ?? 0,
      tries: row?.tries ?? 0,
    }
  }

  const isOpen = (lane: LaneRow, version: number) => !lane.ended && !isPaused(lane) && lane.version === version
  const dueNow = (lane: LaneRow) => Math.min(lane.dueMs ?? Number.POSITIVE_INFINITY, afterPause(lane, now()))

  const statements: Statements = {
    wake: (after) =>
      tables.asynchronous(() => {
        const isLater = (wake: (typeof tables.wakes)[number]) =>
          wake.orgId > after.orgId || (wake.orgId === after.orgId && wake.firstSeq > after.firstSeq)
        const taken = tables.wakes
          .filter(isLater)
          .sort((a, b) => (a.orgId < b.orgId ? -1 : a.orgId > b.orgId ? 1 : a.firstSeq - b.firstSeq))
          .slice(0, wakesMax)
        const orgsLeft = new Set<OrgId>()
        let free = 0
        for (const lane of lanes.values()) {
          const ranges = taken.filter(({ orgId }) => orgId === lane.orgId)
          const headSeq = deliveries
            .get(lane.id)!
            .findLast((seq) => ranges.some(({ firstSeq, lastSeq }) => seq >= firstSeq && seq <= lastSeq))
          if (headSeq === undefined || lane.ended || headSeq <= lane.headSeq) continue
          if (locked.has(lane.id)) {
            orgsLeft.add(lane.orgId)
            continue
          }
          if (lane.owner === null) free += 1
          const becomesDue = lane.owner === null && headSeq > lane.cursorSeq
          tables.update(lane, { headSeq, ...(becomesDue && { dueMs: dueNow(lane) }) })
        }
        tables.deleteWakes(taken.filter(({ orgId }) => !orgsLeft.has(orgId)))
        const last = taken.at(-1)
        const isPage = taken.length === wakesMax && last !== undefined
        return { free, next: isPage ? { orgId: last.orgId, firstSeq: last.firstSeq } : null }
      }),

    lease: ({ owner, lanesMax, leaseMs, exceptOrgs, exceptLanes }) =>
      tables.asynchronous(() => {
        const oldest = [...lanes.values()]
          .filter((lane) => lane.dueMs !== null && lane.dueMs <= now())
          .filter((lane) => !exceptOrgs.includes(lane.orgId) && !exceptLanes.includes(lane.id))
          .sort((a, b) => a.dueMs! - b.dueMs!)
          .slice(0, lanesMax * 4)
        const turns = new Map<OrgId, number>()
        const byTurn = oldest.map((lane) => {
          const turn = turns.get(lane.orgId) ?? 0
          turns.set(lane.orgId, turn + 1)
          return { lane, turn }
        })
        byTurn.sort((a, b) => a.turn - b.turn || a.lane.dueMs! - b.lane.dueMs!)
        const free = byTurn.slice(0, lanesMax).filter(({ lane }) => !locked.has(lane.id))
        return free.map(({ lane }): LeasedLane => {
          const token = Math.max(lane.token + 1, Math.floor(now() * 1_000))
          tables.update(lane, { owner, token, dueMs: now() + leaseMs, server: tables.server })
          return {
            laneId: lane.id,
            orgId: lane.orgId,
            webhookId: `wh_${lane.id}` as WebhookId,
            token,
            cursorSeq: lane.cursorSeq,
            redeliveryRequests: lane.redeliveryRequests,
            takenOver: tables.inFlightOf(lane.id).length > 0,
            paused: isPaused(lane),
            version: lane.version,
            webhook: lane.ended ? null : settingsOf(lane),
          }
        })
      }),

    interrupt(held) {
      const free = held.flatMap(({ laneId, token }) => {
        const lane = lanes.get(laneId)
        const isOurs = lane !== undefined && lane.token === token && lane.server === tables.server
        return isOurs && !locked.has(laneId) ? [lane] : []
      })
      for (const { id, token, ended } of free) {
        for (const row of tables.inFlightOf(id)) {
          if (row.token === token) continue
          endAttempt(row, 'interrupted')
          if (!ended) retry(row, now(), row.tries)
        }
      }
      if (free.length > 0) tables.flush()
      return free.map((lane) => lane.id)
    },

    renew: (held) =>
      tables.asynchronous(() =>
        held.flatMap(({ laneId, token, version }) => {
          const lane = lanes.get(laneId)
          if (!isHeld(lane, token)) return []
          if (!locked.has(laneId)) tables.update(lane, { dueMs: now() + leaseMs() })
          const changed = lane.version === version || lane.ended ? null : { version: lane.version, ...settingsOf(lane) }
          const { redeliveryRequests, ended } = lane
          return [{ laneId, redeliveryRequests, ended, paused: isPaused(lane), changed }]
        }),
      ),

    release: (held) =>
      tables.asynchronous(() =>
        held.flatMap(({ laneId, token, redeliveryRequests, abandon }) => {
          const lane = lanes.get(laneId)
          if (lane === undefined || lane.token !== token || locked.has(laneId)) return []
          const isQuiet = lane.headSeq <= lane.cursorSeq && lane.redeliveryRequests === redeliveryRequests
          const isUsed = lane.server !== tables.server || tables.inFlightOf(laneId).length > 0
          if (!abandon && (isUsed || !(lane.ended || isQuiet))) return []
          tables.update(lane, { owner: null, dueMs: dueAfterRelease(lane, abandon) })
          return [laneId]
        }),
      ),

    isHeld({ laneId, token, version }) {
      const lane = lanes.get(laneId)
      return isHeld(lane, token) && isOpen(lane, version)
    },

    fetch: (requests) =>
      requests.flatMap(({ laneId, afterSeq, firstsMax, retriesMax }) => {
        const lane = lanes.get(laneId)!
        const due = tables
          .retriesOf(laneId)
          .filter((row) => row.dueMs <= now())
          .sort((a, b) => a.dueMs - b.dueMs)
        const firsts = deliveries.get(laneId)!.filter((eventSeq) => eventSeq > afterSeq)
        return [
          ...due.slice(0, retriesMax).map((row) => dueDelivery(lane, row.eventSeq, row)),
          ...firsts.slice(0, firstsMax).map((eventSeq) => dueDelivery(lane, eventSeq)),
        ]
      }),

    begin(given) {
      const versions = new Map(given.map(({ laneId, version }) => [laneId, version]))
      const tokens = new Map(given.map(({ laneId, token }) => [laneId, token]))
      const held = new Set<number>()
      const cursors = new Map<number, number>()
      for (const [laneId, token] of tokens) {
        const lane = lanes.get(laneId)
        if (!isHeld(lane, token) || !isOpen(lane, versions.get(laneId)!) || locked.has(laneId)) continue
        held.add(laneId)
        cursors.set(laneId, lane.cursorSeq)
      }
      const begun = new Map<string, number>()
      for (const { laneId, eventSeq, attempt, attemptId, token, startedAtMs } of given) {
        if (!held.has(laneId)) continue
        const key = keyOf(laneId, eventSeq)
        const waiting = retries.get(key)
        const isRetry = attempt > 1 && waiting?.attempt === attempt - 1
        const sent = inFlight.get(key)
        if (isRetry || (attempt === 1 && eventSeq > cursors.get(laneId)!)) {
          if (sent !== undefined) throw new Error(`in_flight: ${key} exists`)
          const tries = isRetry ? waiting.tries : 0
          retries.delete(key)
          inFlight.set(key, { laneId, eventSeq, attemptId, token, attempt, tries, startedAtMs })
          begun.set(attemptId, tries)
        } else if (sent?.attemptId === attemptId) begun.set(attemptId, sent.tries)
        const lane = lanes.get(laneId)!
        const newestSeq = attempt === 1 ? eventSeq : 0
        tables.update(lane, {
          cursorSeq: Math.max(lane.cursorSeq, newestSeq),
          headSeq: Math.max(lane.headSeq, newestSeq),
          ...(lane.dueMs! < now() + leaseMs() / 2 && { dueMs: now() + leaseMs() }),
        })
      }
      if (held.size > 0) tables.flush()
      return { lanes: held, begun }
    },

    settle(settled) {
      let recorded = 0
      for (const { attempt, outcome, tries, retryMs } of settled) {
        const row = inFlight.get(keyOf(attempt.laneId, attempt.eventSeq))
        const lane = lanes.get(attempt.laneId)!
        if (row?.attemptId !== attempt.attemptId || lane.token !== attempt.token) continue
        recorded += 1
        endAttempt(row, outcome.status)
        if (retryMs !== null && !lane.ended) retry(row, now() + retryMs, tries)
      }
      if (recorded > 0) tables.flush()
      return recorded
    },
  }

  function endAttempt(row: InFlightRow, status: string): void {
    const { laneId, eventSeq, attempt, attemptId } = row
    inFlight.delete(keyOf(laneId, eventSeq))
    if (attempts.has(attemptId)) throw new Error(`attempts: ${attemptId} exists`)
    attempts.set(attemptId, { laneId, eventSeq, attempt, attemptId, status })
  }

  function retry({ laneId, eventSeq, attempt }: InFlightRow, dueMs: number, tries: number): void {
    const key = keyOf(laneId, eventSeq)
    if (retries.has(key)) throw new Error(`retries: ${key} exists`)
    retries.set(key, { laneId, eventSeq, dueMs, attempt, tries })
  }

  function dueAfterRelease(lane: LaneRow, abandon: boolean): number | null {
    if (tables.inFlightOf(lane.id).length > 0) return now()
    if (lane.ended) return null
    if (abandon) return afterPause(lane, now())
    const dueMs = earliest(tables.retriesOf(lane.id).map((row) => row.dueMs))
    return dueMs === null ? null : afterPause(lane, dueMs)
  }

  return Object.assign(tables, { statements })
}
