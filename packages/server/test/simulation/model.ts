import type { DispatchStore } from '../../src/delivery/dispatcher/ports.ts'
import type { DueDelivery } from '../../src/delivery/statements/fetch.ts'
import type { LeasedLane } from '../../src/delivery/statements/lease.ts'
import type { AttemptOutcome } from '../../src/delivery/statements/settle.ts'
import type { OrgId, WebhookId } from '../../src/lib/ids.ts'
import { createTables, type InFlightRow, keyOf, type LaneRow, type RetryRow } from './tables.ts'

/** Every function of the dispatcher's store, done at once: a statement of PostgreSQL is atomic. */
export type Statements = {
  [Name in keyof DispatchStore]: (...given: Parameters<DispatchStore[Name]>) => Awaited<ReturnType<DispatchStore[Name]>>
}

export type Model = ReturnType<typeof createModel>
export type ModelOptions = { now(): number; leaseMs(): number; probeMs(): number; wakesMax: number }

/** The statements of `src/delivery/statements` in memory. conformance.test.ts compares them with the real ones. */
export function createModel({ now, leaseMs, probeMs, wakesMax }: ModelOptions) {
  const tables = createTables(now)
  const { lanes, deliveries, retries, inFlight, attempts, locked, isSuspended } = tables
  /** What owners are told. */
  const changes: { laneId: number; kind: 'failing' | 'recovered' }[] = []

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
      attempts: row === undefined ? 0 : attemptsOf(row),
      tries: row?.tries ?? 0,
      requested: row !== undefined && isRequested(row),
      early: row !== undefined && row.attempt < 0,
    }
  }

  const isOpen = (lane: LaneRow, version: number) => !lane.ended && !isPaused(lane) && lane.version === version
  const dueNow = (lane: LaneRow) => {
    const fromMs = isSuspended(lane) ? Math.max(now(), lane.probeMs!) : now()
    return Math.min(lane.dueMs ?? Number.POSITIVE_INFINITY, afterPause(lane, fromMs))
  }
  /** What a suspended lane is tried with. */
  const probe = (lane: LaneRow, afterSeq: number): DueDelivery[] => {
    if (lane.probeMs === null || lane.probeMs > now()) return []
    const waiting = tables.retriesOf(lane.id).filter((row) => !isRequested(row))
    const [row] = waiting.sort((a, b) => a.dueMs - b.dueMs)
    const eventSeq = row?.eventSeq ?? deliveries.get(lane.id)!.find((seq) => seq > afterSeq)
    return eventSeq === undefined ? [] : [dueDelivery(lane, eventSeq, row)]
  }

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
            suspended: isSuspended(lane),
            resumes: lane.resumes,
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
          if (!ended) retry(row, now(), { tries: row.tries, counted: false })
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
          const states = { paused: isPaused(lane), suspended: isSuspended(lane) }
          return [{ laneId, redeliveryRequests, ended, ...states, changed }]
        }),
      ),

    release: (held) =>
      tables.asynchronous(() =>
        held.flatMap(({ laneId, token, redeliveryRequests, abandon }) => {
          const lane = lanes.get(laneId)
          if (lane === undefined || lane.token !== token || locked.has(laneId)) return []
          const isQuiet =
            (lane.headSeq <= lane.cursorSeq || isSuspended(lane)) && lane.redeliveryRequests === redeliveryRequests
          const isUsed = lane.server !== tables.server || tables.inFlightOf(laneId).length > 0
          if (!abandon && (isUsed || !(lane.ended || isQuiet))) return []
          const resumes = lane.resumes && (abandon || lane.suspendedMs !== null)
          tables.update(lane, { owner: null, dueMs: dueAfterRelease(lane, abandon), resumes })
          return [laneId]
        }),
      ),

    isHeld({ laneId, token, version }) {
      const lane = lanes.get(laneId)
      return isHeld(lane, token) && isOpen(lane, version)
    },

    fetch: (requests) =>
      requests.flatMap(({ laneId, afterSeq, firstsMax, retriesMax, suspended }) => {
        const lane = lanes.get(laneId)!
        const due = tables
          .retriesOf(laneId)
          .filter((row) => row.dueMs <= now() && (!suspended || isRequested(row)))
          .sort((a, b) => a.dueMs - b.dueMs)
        const firsts = suspended ? [] : deliveries.get(laneId)!.filter((eventSeq) => eventSeq > afterSeq)
        return [
          ...(suspended ? probe(lane, afterSeq) : []),
          ...due.slice(0, retriesMax).map((row) => dueDelivery(lane, row.eventSeq, row)),
          ...firsts.slice(0, firstsMax).map((eventSeq) => dueDelivery(lane, eventSeq)),
        ]
      }),

    begin(given) {
      const versions = new Map(given.map(({ laneId, version }) => [laneId, version]))
      const tokens = new Map(given.map(({ laneId, token }) => [laneId, token]))
      const known = new Map(given.map(({ laneId, suspended }) => [laneId, suspended]))
      const held = new Set<number>()
      const cursors = new Map<number, number>()
      const waits = new Map<number, boolean>()
      for (const [laneId, token] of tokens) {
        const lane = lanes.get(laneId)
        if (!isHeld(lane, token) || !isOpen(lane, versions.get(laneId)!) || locked.has(laneId)) continue
        if (isSuspended(lane) !== known.get(laneId)) continue
        held.add(laneId)
        cursors.set(laneId, lane.cursorSeq)
        waits.set(laneId, isSuspended(lane) && lane.probeMs! > now())
      }
      const begun = new Map<string, number>()
      for (const { laneId, eventSeq, attempt, attemptId, token, startedAtMs, early, suspended } of given) {
        if (!held.has(laneId)) continue
        const key = keyOf(laneId, eventSeq)
        const waiting = retries.get(key)
        const isFirst = attempt === 1 && !early
        const isNext = !isFirst && waiting !== undefined && attemptsOf(waiting) === attempt - 1
        const isRetry = isNext && (isRequested(waiting) || !waits.get(laneId)!)
        const sent = inFlight.get(key)
        const lane = lanes.get(laneId)!
        if (isRetry || (isFirst && eventSeq > cursors.get(laneId)! && !waits.get(laneId)!)) {
          if (sent !== undefined) throw new Error(`in_flight: ${key} exists`)
          const tries = isRetry ? waiting.tries : 0
          const requested = isRetry && isRequested(waiting)
          const redelivered = isRetry && waiting.redelivered
          retries.delete(key)
          const row = { laneId, eventSeq, attemptId, token, attempt, tries, startedAtMs, redelivered, requested }
          inFlight.set(key, row)
          begun.set(attemptId, tries)
          if (suspended && !requested) tables.update(lane, { probeMs: now() + probeMs() })
        } else if (sent?.attemptId === attemptId) begun.set(attemptId, sent.tries)
        const newestSeq = isFirst && !waits.get(laneId)! ? eventSeq : 0
        tables.update(lane, {
          cursorSeq: Math.max(lane.cursorSeq, newestSeq),
          headSeq: Math.max(lane.headSeq, isFirst ? eventSeq : 0),
          ...(lane.dueMs! < now() + leaseMs() / 2 && { dueMs: now() + leaseMs() }),
        })
      }
      if (held.size > 0) tables.flush()
      return { lanes: held, begun }
    },

    settle(settled) {
      let recorded = 0
      const postponed = new Set<string>()
      const isPostponed = (lane: LaneRow) => {
        const theirs = settled.filter(({ attempt }) => attempt.laneId === lane.id && attempt.token === lane.token)
        return locked.has(lane.id) && !lane.ended && theirs.some(({ outcome }) => changesHealth(lane, outcome))
      }
      const ended = new Map<LaneRow, AttemptOutcome[]>()
      const left = new Set([...lanes.values()].filter(isPostponed))
      for (const { attempt, outcome, tries, retryMs } of settled) {
        const row = inFlight.get(keyOf(attempt.laneId, attempt.eventSeq))
        const lane = lanes.get(attempt.laneId)!
        if (left.has(lane) && lane.token === attempt.token) postponed.add(attempt.attemptId)
        if (row?.attemptId !== attempt.attemptId || lane.token !== attempt.token || left.has(lane)) continue
        recorded += 1
        endAttempt(row, outcome.status)
        if (!lane.ended) ended.set(lane, [...(ended.get(lane) ?? []), outcome])
        if (retryMs !== null && !lane.ended) retry(row, now() + retryMs, { tries, counted: counts(outcome) })
      }
      for (const [lane, outcomes] of ended) noteHealth(lane, outcomes)
      if (recorded > 0) tables.flush()
      return { recorded, postponed }
    },
  }

  /** What changes and changes back within a statement is no change. */
  function noteHealth(lane: LaneRow, outcomes: readonly AttemptOutcome[]): void {
    const lastSuccess = outcomes.findLastIndex(({ status }) => status === 'succeeded')
    if (lastSuccess >= 0 && isSuspended(lane)) lane.resumes = true
    else if (lastSuccess >= 0) {
      if (lane.isFailing) changes.push({ laneId: lane.id, kind: 'recovered' })
      Object.assign(lane, { failures: 0, isFailing: false, suspendedMs: null, probeMs: null })
    }
    lane.failures = Math.min(3, lane.failures + outcomes.slice(lastSuccess + 1).filter(counts).length)
    if (lane.failures === 3 && !lane.isFailing) {
      changes.push({ laneId: lane.id, kind: 'failing' })
      lane.resumes = false
    }
    lane.isFailing = lane.failures === 3
  }

  /** Ends the suspension of every webhook whose receiver has answered. Returns how many. */
  function endSuspensions(): number {
    const ending = [...lanes.values()].filter(
      (lane) => lane.resumes && lane.suspendedMs !== null && !lane.ended && !locked.has(lane.id),
    )
    for (const lane of ending) {
      changes.push({ laneId: lane.id, kind: 'recovered' })
      Object.assign(lane, { failures: 0, isFailing: false, suspendedMs: null, probeMs: null })
      const waiting = tables.retriesOf(lane.id).filter((row) => !isRequested(row))
      const dueMs = now()
      const newestFirst = waiting.sort((a, b) => b.eventSeq - a.eventSeq)
      for (const [i, row] of newestFirst.entries()) row.dueMs = dueMs - (i + 1) / 1_000
      tables.request(lane)
    }
    tables.flush()
    return ending.length
  }

  function endAttempt(row: InFlightRow, status: string): void {
    const { laneId, eventSeq, attempt, attemptId } = row
    inFlight.delete(keyOf(laneId, eventSeq))
    if (attempts.has(attemptId)) throw new Error(`attempts: ${attemptId} exists`)
    attempts.set(attemptId, { laneId, eventSeq, attempt, attemptId, status })
  }

  /** What was requested still is, unless the attempt counted. */
  function retry(row: InFlightRow, dueMs: number, { tries, counted }: { tries: number; counted: boolean }): void {
    const { laneId, eventSeq } = row
    const key = keyOf(laneId, eventSeq)
    if (retries.has(key)) throw new Error(`retries: ${key} exists`)
    const isEarly = !counted && !deliveries.get(laneId)!.includes(eventSeq)
    const attempt = isEarly ? ~row.attempt : row.attempt
    retries.set(key, { laneId, eventSeq, dueMs, attempt, tries, redelivered: row.redelivered && !counted })
  }

  function dueAfterRelease(lane: LaneRow, abandon: boolean): number | null {
    if (tables.inFlightOf(lane.id).length > 0) return now()
    if (lane.ended) return null
    if (abandon) return afterPause(lane, now())
    const waiting = tables.retriesOf(lane.id)
    const requested = waiting.filter(isRequested).map((row) => row.dueMs)
    const hasMore = waiting.length > 0 || lane.headSeq > lane.cursorSeq
    const dueMs = isSuspended(lane)
      ? earliest(hasMore ? [...requested, lane.probeMs!] : requested)
      : earliest(waiting.map((row) => row.dueMs))
    return dueMs === null ? null : afterPause(lane, dueMs)
  }

  return Object.assign(tables, { statements, changes, endSuspensions })
}

const isRequested = ({ redelivered, attempt }: RetryRow): boolean => redelivered || attempt < 0
const attemptsOf = ({ attempt }: RetryRow): number => Math.max(attempt, ~attempt)

const counts = ({ status, error }: AttemptOutcome): boolean => status === 'failed' && error?.code !== 'sender_exhausted'

const changesHealth = ({ failures }: LaneRow, outcome: AttemptOutcome): boolean =>
  outcome.status === 'succeeded' ? failures > 0 : counts(outcome) && failures < 3
